"""Settings from outside: files, environment and command line [SPEC 10]. Importing this package reads nothing."""
