# ruff: noqa: SIM905 - a block of words is read and changed more easily than a list of texts

"""Word lists: function words, small talk, and words of agreement and refusal.

The first six lists are as FTS5 folds words: in lower case, Latin letters without diacritics.
"""

FUNCTION = frozenset(
    """
    a about above across after again against ago all almost along already also although always am among an and another
    any anybody anyone anything anyway apart are around as at away back be became because been before being below
    between both but by came can cannot come could did do does doing don done down each either else enough etc even ever
    every everybody everyone everything except excluding few first for from further gave get gets getting give go goes
    going gone got had has have having he her here hers him his how however i if in instead into is isn it its just last
    least less let like ll make many maybe me might mine more most much must my myself near need neither never next no
    nobody none nor not nothing now of off often on once one only onto or other others otherwise our ours out over own
    per perhaps please put quite rather re really said same say says see seem seems shall she should since so some
    somebody someone something still such take than that the their theirs them then there these they thing things this
    those though through thus till to together too toward towards try under unless until up upon us use used uses using
    usually ve very via want wants was we well went were what whatever when where whether which while who whole whom
    whose why will with within without won would yes yet you your yours aber als am an auch auf aus bei das dass dem den
    der des die ein eine einen einer es fur im in ist mit nach nicht nur oder ohne sich sie sind uber um und uns unter
    vom von vor was wie wir zu zum zur au aux avec ce ces dans de des du elle en est et il la le les mais ne nous ou par
    pas pour que qui sans ses son sur un une vous al como con del el ella en es esta este lo los las mas no para pero
    por que se sin sobre su un una y
    """.split()
)
"""Words that name no topic. A text made of these words alone has no topic."""

NODS = frozenset(
    """
    ok okay sure thanks thank continue proceed good great fine right
    """.split()
)
"""Words of a text that only agrees or says to continue."""

COMMON = frozenset(
    """
    add ask bit build call change check create day decide different easy end fact find fix good great hard help hold
    hour idea important keep kind know leave line long look lot matter mean minute move new number open place point
    problem question read right run second set show simple small start stop take tell think three time tomorrow try turn
    two understand version wait way week work write wrong yesterday
    """.split()
)
"""Common words: two texts that share them need not have the same topic."""

ABOUT_TALK = frozenset(
    """
    conversation conversations concerning debate debates dialog dialogue dialogues discuss discussed discusses
    discussing discussion discussions entire exchange exchanges final finally irrelevant keep mention mentioned
    mentioning mentions message messages old older recent regard regarding regards related relating remove stuff talk
    talked talking talks topic topics turn turns forget remember diskussion diskussionen gesprach gesprache nachricht
    nachrichten thema conversacion conversaciones discusion discusiones mensaje mensajes sujet
    """.split()
)
"""Words of a criterion that refer to the conversation, not to its topic."""

TALK = frozenset(
    """
    actually ahead approve approved awesome bye carry cheers confirm confirmed continue continued continues continuing
    cool correct correctly course curious definitely exactly excellent fantastic fine finish finished glad good great
    guess hello hey hi hmm hold hope idea keep kindly lgtm looks lot lots morning move moving nah nice nope oh ok okay
    okey oops perfect perfectly pls plz proceed proceeding ready resume right scratch see ship sorry sound sounds super
    sure sweet thank thanks thx ty understood wait waiting welcome whoops wow yeah yep yolo yup agree agreed ask asked
    answer answers believe feel figure know known mean means question questions tell think thinking thought understand
    wonder wondering wish aren arent cant couldn couldnt couldve didn didnt doesn doesnt dont gonna gotta hadn hadnt
    hasn hasnt haven havent heres im isnt ive kinda lets shouldn shouldnt thats theres theyre tho thru ur wanna wasn
    wasnt weren werent whats wheres wont wouldn wouldnt youre accordingly basically bit currently directly easily
    especially either fully hence hopefully immediately literally mostly properly quick quickly simply somehow somewhat
    somewhere soon therefore today tomorrow totally yesterday while nearly exact exists existing possible possibly
    probably necessary important obvious obviously able best better big bigger different easy following full hard little
    long main new other own previous proper real short similar simple single small specific various whole wrong add
    added adding adds apply applied begin bring call called change changed changes changing check checked checking
    create created creating delete deleted do edit edited ensure explain find finding fix fixed fixes fixing follow
    followed happen happened happening happens help helping implement implemented implementing include included
    including investigate leave look looked looking made make makes making modify need needed needs open provide read
    redo remove removed removing replace rerun retry review revert rewrite run running set setting show showed showing
    shown start started starting step steps stop take tried tries trying undo update updated updates updating work
    worked working works write writing written wrote break breaks broke broken bug bugs crash crashed crashes error
    errors fail failed failing fails failure failures issue issues problem problems trouble class classes code codebase
    case cases content detail details example examples file files folder function functions item items kind line lines
    list method methods name names number numbers option options part parts place point project projects reason repo
    repository result results second section side sort stuff task tasks third time times todo todos type types value
    values variable variables version way ways word words approach cleanup clean debug feedback rest solution suggested
    suggestion suggestions memo memos com lib src html http https www
    """.split()
)
"""Ordinary talk, independent of the work: going on, agreeing, asking for changes, as people type it to a coding
agent; "continue", "go on", "yes please, fix it" pick no memos."""

TALK_ELSEWHERE = frozenset(
    """
    alle allen aller alles andere anderen andern anders ansehen anschauen anpassen anpassung aufgabe aufgaben ausfuhren
    bald beginn beginne behebe beheb beheben bessere besser beispiel beim bevor bin bis bisher bist bitte brauche
    brauchen da dabei dadurch dafur dagegen daher dahin damit danach daneben dank danke dankeschon dann daran darauf
    daraus darin darf daruber darum darunter datei dateien davon dazu dein deine deinem deinen deiner denen denke denn
    deren deshalb dessen deutsch dich diese diesem diesen dieser dieses dir doch dort du durch durfen einfach einigen
    einige einmal entferne entfernen entweder er erklar erklare erklaren erledige erledigt erst erste ersten erstelle
    erstellen es etwa etwas euch euer eure fahr fahre fehler fertig finde finden fort fortfahren fortsetzen frage fragen
    fuge funktion funktioniert funktionieren ganz gar geh gehe gehen geht gegen gehort gemacht genau gern gerne gib gibt
    gleich gut gute guten hab habe haben hallo hast hat hatte hatten hattest helfen hier hilf hilfe hinter hinzu
    hinzufugen ich ihm ihn ihnen ihr ihre ihrem ihren ihrer immer indem irgendwie ja jawohl jede jedem jeden jeder jedes
    jedoch jemand jetzt kann kannst kaputt kein keine keinem keinen keiner klar klappt klasse klingt konnen konnte
    konnten konntest korrekt korrigier korrigiere korrigieren lass lassen lauft laufen lege leider liste losch losche
    loschen los mach mache machen machst macht mal man manche mehr mein meine meinem meinen meiner meinst mich mir mit
    mochte mochten muss mussen musst nachste nachsten nachster nachstes neben nehme nein neu neue neuen neuer neues
    nichts nie niemand nimm noch nochmal nochmals nun ob obwohl okay passe passt perfekt prima probier probiere
    probieren problem probleme projekt pruf prufe prufen punkt reparier repariere reparieren richtig sag sage sagen sah
    schau schaue schauen schon schreib schreibe schreiben schritt schritte schritten sehe sehen sehr sieht sei seid sein
    seine seinem seinen seiner seit selbst setz setze sieh siehe sobald sofort solche solchen soll sollen sollst sollte
    sollten sondern sonst sowie starte starten statt stimmt stopp super tu tun tut uberhaupt uberpruf uberprufe
    uberprufen ubernehmen umsetzen und unser unsere unserem unseren unserer versuch versuche versuchen viel viele vielen
    vielleicht voll vorher wahrend wann war ware waren warte warten warum weil weiter weitere weiteren weitermachen
    welche welchen welcher welches wenig wenn wer werde werden wessen weshalb wieder wieso will willst wird wirst wo
    woher wohin wollen wollte worden wurde wurden zeig zeige zeigen ziemlich zuerst zuletzt zuruck zusammen zwar zwei
    zweite zwischen ainsi allez alors aussi avoir bien bon bonjour comme continuer continuez corrige corriger dit donc
    encore erreur est etre fait faire fais faites fichier ici ils jai je leur maintenant merci moi mon non notre oui
    parfait peux plait poursuis poursuivre quoi quel quelle sont sil suite suivant suivante svp toi ton tous tout toute
    tres vais vas vers voila votre adelante ahora archivo arregla arreglar asi bueno claro continua continuar cuando de
    debe donde ella entonces eso esos esta estan este estos favor gracias hace hacer haz hola ir listo mejor mi mismo
    muy nos otra otro perfecto porque puede puedes quiero seguir segun ser si sigue siguiente solo son soy tambien tiene
    todo todos vale vamos ver ya avanti ancora ciao continuare grazie prossimo prossimi procedi va bene obrigado
    obrigada prosseguir proximo sim далее дальше давай да нет хорошо спасибо продолжай продолжи исправь ок
    继续 好的 好 谢谢 是的 可以 请继续 下一步 行 对 修复 繼續 謝謝 続けて 続き はい ありがとう
    次 お願いします 계속 네 다음 고마워
    """.split()
)
"""Ordinary talk and function words in German, and talk of going on in some other languages."""

YES = frozenset(
    """
    y yes yep yeah yup aye ok okay okey k kk sure certainly absolutely definitely agreed confirm confirmed proceed go
    affirmative lgtm ja jawohl jo jep gerne klar einverstanden oui ouais sí sì si claro vale sim da да ага давай ano áno
    igen evet joo kyllä jah ναι כן نعم हाँ हां はい ええ お願いします 是 是的 好 好的 对 對 可以 行 네 예 👍 ✅
    """.split()
)
"""A plain yes."""

YES_PHRASES = (
    "please do",
    "please proceed",
    "please go ahead",
    "go ahead",
    "go for it",
    "do it",
    "do that",
    "do so",
    "make it so",
    "of course",
    "by all means",
    "yes to all",
    "sure thing",
    "sounds good to me",
    "looks good to me",
    "sounds good",
    "sounds great",
    "looks good",
    "looks right",
    "looks right to me",
    "looks fine",
    "that's correct",
    "that is right",
    "that is correct",
    "that is fine",
    "i confirm",
    "i'm sure",
    "i am sure",
    "sounds fine",
    "that's right",
    "that's fine",
    "that works",
    "works for me",
    "fine by me",
    "fine with me",
    "good by me",
    "good with me",
    "ok by me",
    "okay by me",
    "i agree",
    "i'm fine with that",
    "i'm fine with it",
    "i'm ok with that",
    "let's do it",
    "let's do that",
    "let's go",
    "go on",
    "ship it",
    "you may",
    "you can",
    "all right",
    "alright",
    "mach das",
    "mach es",
    "d'accord",
    "vas y",
    "allez y",
    "de acuerdo",
    "hazlo",
    "va bene",
    "passt",
    "in ordnung",
    "von mir aus",
)
"""A plain yes in several words."""

ALL_PHRASES = (
    "all of it",
    "all of them",
    "all of these",
    "all of those",
    "all",
    "everything",
    "both of them",
    "both",
    "alles",
    "alle",
)
"""A plain yes to everything that is offered."""

WEAK = frozenset(
    """
    fine good great perfect right correct exactly excellent cool nice super
    """.split()
)
"""Words that agree if nothing else follows."""

COURTESY = frozenset(
    """
    please pls thanks thank you very much now then exactly right perfect great good fine all of them these those both
    with the forgetting i do am bitte danke merci gracias grazie por favor plaît s'il te vous obrigado спасибо
    пожалуйста ください
    """.split()
)
"""Words that may follow a yes without changing it."""

DOUBT = frozenset(
    """
    no not nothing nope never don't dont doesn't won't can't cannot shouldn't without but except excluding unless until
    if only just rather instead however though although maybe perhaps probably later first before after wait hold stop
    cancel abort leave keep skip other others else different which what why how who when where show also other than half
    most some many few nearly almost wrong undo nein nicht kein keine aber außer nur warte stopp sondern erst non pas
    mais sauf seulement attends pero salvo solo espera нет не но стоп 不 别 不要
    """.split()
)
"""Words of a condition, an exception or an addition: with one of them, a yes and an order are not a plain yes."""

NO = frozenset(
    """
    no nope nah n never stop cancel abort don't dont wait quit nein nö nicht stopp abbrechen non annule cancela não nao
    нет не стоп ne nej いいえ 不 不要 不是 아니요 لا
    """.split()
)
"""A plain no."""

NO_PHRASES = (
    "none of them",
    "none of these",
    "none of those",
    "none",
    "nothing",
    "keep them",
    "keep these",
    "keep those",
    "keep it",
    "keep all",
    "keep everything",
    "keep both",
    "leave them alone",
    "leave it alone",
    "leave them",
    "leave it",
    "leave both",
    "none of the above",
    "no way",
    "do nothing",
    "forget nothing",
    "i don't want that",
    "i don't want this",
    "i do not want that",
    "leave everything",
    "not now",
    "not yet",
    "not today",
    "better not",
    "rather not",
    "i'd rather not",
    "i would rather not",
    "i changed my mind",
    "changed my mind",
    "i've changed my mind",
    "let it be",
    "let them be",
    "lieber nicht",
    "besser nicht",
)
"""A plain no in several words. "Keep" and "leave" decline only what would be forgotten."""

HESITATION = (
    "maybe",
    "perhaps",
    "probably",
    "possibly",
    "hmm",
    "hm",
    "uh",
    "um",
    "i guess",
    "i think",
    "i suppose",
    "i believe",
    "not sure",
    "i'm not sure",
    "unsure",
    "i don't know",
    "don't know",
    "dunno",
    "no idea",
    "hold on",
    "hang on",
    "wait a moment",
    "one moment",
    "let me think",
    "thanks",
    "thank you",
    "no problem",
    "no objection",
    "no objections",
    "no worries",
    "why not",
    "it depends",
    "depends",
    "vielleicht",
)
"""Words that are neither a yes nor a no."""

LOOKING = frozenset("? show list display see preview repeat what which how why again".split())
"""Words of which a question about an offer has one."""

LOOK = LOOKING | frozenset(
    """
    a about affect affected affects all am and anything are be been before but by can cost could d did do does done drop
    dropped else everything exactly find first for forget forgets forgetting forgotten found from get give gives go goes
    gone happen happens have huh i in included includes is it just keep keeping keeps kept know leave leaves leaving
    left let like line lines ll look m many match matched matches me message messages more much my need not now of offer
    ok on once one ones or other others out please preview previewed question range ranges re really remain remains
    remember remembered remove removed removes rest s save saves say stay staying stays sure take taken takes tell that
    the their them then there these they this those time to token tokens undo us ve want was we were where who will
    would you your
    """.split()
)
"""Words of which a question about an offer consists."""

DECLINED = frozenset(
    """
    it that this do forget proceed never mind anything here apply way
    """.split()
)
"""Words that may follow a no without changing it."""
