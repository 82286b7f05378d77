"""What is set from outside: files, environment and command line [SPEC 10]. Nothing is read when this is imported."""
