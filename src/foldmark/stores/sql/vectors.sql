-- Statements about the models of vectors, for each database and for the index of the archive.

-- name: embedders
-- The embedding models with vectors, and the event up to which these exist.
SELECT fingerprint, until FROM embedders

-- name: add_embedder
-- Adds and locks an embedding model, and returns its key.
INSERT INTO embedders (fingerprint) VALUES (:fingerprint)
ON CONFLICT (fingerprint) DO UPDATE SET fingerprint = excluded.fingerprint RETURNING key

-- part: of_model
embedder = (SELECT key FROM embedders WHERE fingerprint = :fingerprint)

-- name: drop_vectors
-- Removes all vectors of a model.
DELETE FROM vectors WHERE <<of_model>>

-- name: drop_signatures
-- Removes all signatures of a model.
DELETE FROM signatures WHERE <<of_model>>

-- name: drop_embedder
-- Removes a model.
DELETE FROM embedders WHERE fingerprint = :fingerprint
