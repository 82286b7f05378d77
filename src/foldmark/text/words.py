"""Lists of words that say little about a topic, all as FTS5 folds them (`keywords.folded`); and a light stemmer.

The stemmer is for English: plurals, -ing, -ed and the commonest endings of nouns made from verbs. It only has to send
related words to one form, not to a word. Memos are picked by it.
"""

import re
from functools import lru_cache

_VOWEL = re.compile("[aeiouy]")
_NOUN = re.compile("(?:ational|ation|ator|ate|ion|ment|or|er|ly)$")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


FUNCTION = _set(
    """
    a about above across after again against ago all almost along already also although always am among an and another
    any anybody anyone anything anyway apart are around as at away back be became because been before being below
    between both but by came can cannot come could did do does doing don done down each either else enough etc even
    ever every everybody everyone everything except excluding few first for from further gave get gets getting give go
    goes going gone got had has have having he her here hers him his how however i if in instead into is isn
    it its just last least less let like ll make many maybe me might mine more most much must my myself near need
    neither never next no nobody none nor not nothing now of off often on once one only onto or other others otherwise
    our ours out over own per perhaps please put quite rather re really said same say says see seem seems shall she
    should since so some somebody someone something still such take than that the their theirs them then there these
    they thing things this those though through thus till to together too toward towards try under unless until up upon
    us use used uses using usually ve very via want wants was we well went were what whatever when where whether which
    while who whole whom whose why will with within without won would yes yet you your yours
    aber als am an auch auf aus bei das dass dem den der des die ein eine einen einer es fur im in ist mit nach nicht
    nur oder ohne sich sie sind uber um und uns unter vom von vor was wie wir zu zum zur
    au aux avec ce ces dans de des du elle en est et il la le les mais ne nous ou par pas pour que qui sans ses son sur
    un une vous al como con del el ella en es esta este lo los las mas no para pero por que se sin sobre su un una y
    """
)
"""Words that say nothing about a topic, folded; a text of these alone is about nothing by itself."""

NODS = _set("ok okay sure thanks thank continue proceed good great fine right")
"""Words of a text that only agrees or says to go on."""

COMMON = _set(
    """
    add ask bit build call change check create day decide different easy end fact find fix good great hard help
    hold hour idea important keep kind know leave line long look lot matter mean minute move new number
    open place point problem question read right run second set show simple small start stop take tell
    think three time tomorrow try turn two understand version wait way week work write wrong yesterday
    """
)
"""Words that talk about anything has; that two texts share them does not say that they are on one topic."""

ABOUT_TALK = _set(
    """
    conversation conversations concerning debate debates dialog dialogue dialogues discuss discussed
    discusses discussing discussion discussions entire exchange exchanges final finally irrelevant keep mention
    mentioned mentioning mentions message messages old older recent regard regarding regards related relating
    remove stuff talk talked talking talks topic topics turn turns forget remember
    diskussion diskussionen gesprach gesprache nachricht nachrichten thema conversacion conversaciones discusion
    discusiones mensaje mensajes sujet
    """
)
"""Words of a criterion that speak of the conversation, not of its topic."""


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return the form that a folded word shares with those related to it."""
    word = word.casefold()
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    word = _without_ending(_singular(word))
    word = re.sub("ision$", "ide", word) if len(word) > 6 else word
    rest = _NOUN.sub("", word)
    if word.endswith("ion") and len(rest) < 4:
        rest = word.removesuffix("ion")
    # A short rest is a chance likeness ("station", "element", "letter"), not a verb.
    if len(rest) >= {"m": 6, "e": 5, "o": 5, "l": 5}.get(word[len(rest) : len(rest) + 1], 4) and _VOWEL.search(rest):
        word = rest
    if len(word) > 4 and word.endswith("e"):
        word = word[:-1]
    if len(word) > (5 if word.endswith("l") else 4) and word[-1] == word[-2] and word[-1] not in "aeiousz":
        word = word[:-1]
    return f"{word[:-1]}i" if len(word) > 3 and word.endswith("y") else word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "sis")) else word


def _without_ending(word: str) -> str:
    """Return the verb of a form in -ing or -ed."""
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest == word or len(rest) < 3 or not _VOWEL.search(rest) or word.endswith("eed"):
            continue
        if rest[-1] == rest[-2] and rest[-1] not in "lsz":
            return rest[:-1]
        # "noted" comes from "note": after one short vowel English doubles what follows ("logged"), except w, x and y.
        short = len(rest) == 3 and not _VOWEL.match(rest[0]) and _VOWEL.match(rest[1]) and not _VOWEL.match(rest[2])
        return f"{rest}e" if rest.endswith("at") or (short and rest[2] not in "wxy") else rest
    return word


TALK = _set(
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
    probably necessary important obvious obviously able best better big bigger different easy following full hard
    little long main new other own previous proper real short similar simple single small specific various whole wrong
    add added adding adds apply applied begin bring call called change changed changes changing check checked checking
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
    values variable variables version way ways word words approach cleanup clean debug feedback rest solution
    suggested suggestion suggestions memo memos com lib src html http https www
    """
)
"""Ordinary talk, independent of the work."""

TALK_ELSEWHERE = _set(
    """
    alle allen aller alles andere anderen andern anders ansehen anschauen anpassen anpassung aufgabe aufgaben ausfuhren
    bald beginn beginne behebe beheb beheben bessere besser beispiel beim bevor bin bis bisher bist bitte brauche
    brauchen da dabei dadurch dafur dagegen daher dahin damit danach daneben dank danke dankeschon dann daran darauf
    daraus darin darf daruber darum darunter datei dateien davon dazu dein deine deinem deinen deiner denen denke denn
    deren deshalb dessen deutsch dich diese diesem diesen dieser dieses dir doch dort du durch durfen einfach einigen
    einige einmal entferne entfernen entweder er erklar erklare erklaren erledige erledigt erst erste ersten erstelle
    erstellen es etwa etwas euch euer eure fahr fahre fehler fertig finde finden fort fortfahren fortsetzen frage
    fragen fuge funktion funktioniert funktionieren ganz gar geh gehe gehen geht gegen gehort gemacht genau gern gerne
    gib gibt gleich gut gute guten hab habe haben hallo hast hat hatte hatten hattest helfen hier hilf hilfe hinter
    hinzu hinzufugen ich ihm ihn ihnen ihr ihre ihrem ihren ihrer immer indem irgendwie ja jawohl jede jedem jeden
    jeder jedes jedoch jemand jetzt kann kannst kaputt kein keine keinem keinen keiner klar klappt klasse klingt konnen
    konnte konnten konntest korrekt korrigier korrigiere korrigieren lass lassen lauft laufen lege leider liste losch
    losche loschen los mach mache machen machst macht mal man manche mehr mein meine meinem meinen meiner meinst mich
    mir mit mochte mochten muss mussen musst nachste nachsten nachster nachstes neben nehme nein neu neue neuen neuer
    neues nichts nie niemand nimm noch nochmal nochmals nun ob obwohl okay passe passt perfekt prima probier probiere
    probieren problem probleme projekt pruf prufe prufen punkt reparier repariere reparieren richtig sag sage sagen sah
    schau schaue schauen schon schreib schreibe schreiben schritt schritte schritten sehe sehen sehr sieht sei seid sein
    seine seinem seinen seiner seit selbst setz setze sieh siehe sobald sofort solche solchen soll sollen sollst sollte
    sollten sondern sonst sowie starte starten statt stimmt stopp super tu tun tut uberhaupt uberpruf uberprufe
    uberprufen ubernehmen umsetzen und unser unsere unserem unseren unserer versuch versuche versuchen viel viele
    vielen vielleicht voll vorher wahrend wann war ware waren warte warten warum weil weiter weitere weiteren
    weitermachen welche welchen welcher welches wenig wenn wer werde werden wessen weshalb wieder wieso will willst
    wird wirst wo woher wohin wollen wollte worden wurde wurden zeig zeige zeigen ziemlich zuerst zuletzt zuruck
    zusammen zwar zwei zweite zwischen ainsi allez alors aussi avoir bien bon bonjour comme continuer continuez corrige
    corriger dit donc encore erreur est etre fait faire fais faites fichier ici ils jai je leur maintenant merci moi
    mon non notre oui parfait peux plait poursuis poursuivre quoi quel quelle sont sil suite suivant suivante svp toi
    ton tous tout toute tres vais vas vers voila votre adelante ahora archivo arregla arreglar asi bueno claro
    continua continuar cuando de debe donde ella entonces eso esos esta estan este estos favor gracias hace hacer haz
    hola ir listo mejor mi mismo muy nos otra otro perfecto porque puede puedes quiero seguir segun ser si sigue
    siguiente solo son soy tambien tiene todo todos vale vamos ver ya avanti ancora ciao continuare grazie prossimo
    prossimi procedi va bene obrigado obrigada prosseguir proximo sim далее дальше
    давай да нет хорошо спасибо продолжай продолжи исправь ок
    继续 好的 好 谢谢 是的 可以 请继续 下一步 行 对 修复 繼續 謝謝 続けて 続き はい ありがとう
    次 お願いします 계속 네 다음 고마워
    """
)
"""The same, and function words, in German; the talk of going on in some other languages. All folded."""

STOP = FUNCTION | TALK | TALK_ELSEWHERE
"""All of them."""
