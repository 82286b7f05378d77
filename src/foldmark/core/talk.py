"""Words without a subject [S2]: "continue", "go on", "yes please, fix it" pick no memos.

Function words and the talk of going on, of agreeing and of asking for changes, as people type them to a coding agent;
English and German, and the talk of going on in some other languages. All as FTS5 folds them (`keywords`).
"""

from foldmark.core.words import FUNCTION


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


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
