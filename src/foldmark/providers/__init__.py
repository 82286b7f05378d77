"""Language models: one file each, loaded when used."""
