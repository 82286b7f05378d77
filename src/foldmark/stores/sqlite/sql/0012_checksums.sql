-- A checksum of each event, so that `foldmark doctor` finds bytes that changed on the disk. docs/format.md says what it
-- covers. Events recorded before this migration have none: null is "not known".
ALTER TABLE events ADD COLUMN checksum INTEGER;
