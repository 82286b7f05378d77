"""Models to ask. `registry` says what each provider speaks and where it is; the modules `*_api` ask one over its SDK,
which is imported when it is first asked, with what they share in `sdk`; `retrying` stands in front of any; `offline`
needs no network."""
