"""Lists of words that say little about a topic, and a light stemmer by which memos are picked.

Stemming is for English and light: plurals, -ing, -ed and the commonest endings of nouns made from verbs; it only has to
send related words to one form, not to a word.
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
