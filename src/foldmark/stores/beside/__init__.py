"""The tables beside the log, in any database: each module reads one (`...View`, a part of `LogSnapshot`), writes it (a
part of `LogTransaction`), and checks it (`damage`)."""
