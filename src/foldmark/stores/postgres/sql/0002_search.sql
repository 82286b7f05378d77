-- What messages are found by: their words, as `foldmark.stores.postgres.words` makes them, and vectors of what was said.

-- The stems of a message's words in order, each in `<>`; behind an empty one, which no phrase crosses, the parts of its
-- names. `length` is how many these are. A message without a text has no row.
CREATE TABLE words (
    root bigint NOT NULL,
    id bigint NOT NULL,
    length integer NOT NULL,
    words text COLLATE "C" NOT NULL,
    PRIMARY KEY (root, id) INCLUDE (length)
);

CREATE FUNCTION lexemes(words text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT array_to_tsvector(array_remove(string_to_array(btrim(words, '<>'), '><'), '')) $$;

-- A tsvector holds 1 MB. Positions are not in it: the few messages that hold all words of a phrase are looked at.
CREATE INDEX words_of_messages ON words USING gin (lexemes(words)) WHERE octet_length(words) < 900000;

-- Of longer ones the different words, in pieces.
CREATE TABLE long_words (
    root bigint NOT NULL,
    id bigint NOT NULL,
    piece integer NOT NULL,
    lexemes tsvector NOT NULL,
    PRIMARY KEY (root, id, piece)
);

CREATE INDEX words_of_long_messages ON long_words USING gin (lexemes);

-- Models that texts were given to, each by what tells it from others, and the newest event that this was done up to, in the
-- order of changes (`foldmark.stores.postgres.changes`).
CREATE TABLE embedders (
    key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text COLLATE "C" NOT NULL UNIQUE,
    until bigint NOT NULL DEFAULT 0,
    stamp bigint NOT NULL DEFAULT 0
);

-- The vectors of a message's passages one behind the other, and apart from them the signs of their components. `place` is
-- the order in which they were stored; of an erased message it stays, with nothing beside it.
CREATE TABLE vectors (
    root bigint NOT NULL,
    id bigint NOT NULL,
    embedder integer NOT NULL,
    vectors bytea NOT NULL,
    PRIMARY KEY (root, id, embedder)
);

CREATE TABLE signatures (
    root bigint NOT NULL,
    id bigint NOT NULL,
    embedder integer NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    signatures bytea NOT NULL,
    PRIMARY KEY (root, id, embedder)
);

CREATE INDEX signatures_in_order ON signatures (embedder, place);
