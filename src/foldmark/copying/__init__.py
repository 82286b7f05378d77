"""Copy conversations between stores: all, some, or only the records since the last copy [docs/reference/backup.md].

A target that is empty, or has only earlier copies of the source, gets all records with their ids (`steps`). In any
other target the ids of events are taken, so named conversations get new ones (`adding`, `renumbering`). The source is
read as of one moment. `comparing` selects the records to copy, checks before any write that the target can receive
them, and compares both stores at the end.
"""

from collections.abc import Sequence

from foldmark.copying.adding import Addition
from foldmark.copying.comparing import OwnContentsError, scope
from foldmark.copying.steps import AddedConversation, Copy, CopyReport
from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress, Store
from foldmark.stores.addresses import shown

__all__ = ["AddedConversation", "CopyReport", "copy"]


def copy(
    source: Store,
    target: Store,
    names: Sequence[str] = (),
    progress: Progress = lambda *_: None,
    *,
    called: str | None = None,
) -> CopyReport:
    """Copy conversations with all their forks (without `names`, the whole database), then compare both stores.

    Records that the target already has stay, so only new ones are copied. Ids do not change if the target is empty or
    has only earlier copies of the source. Otherwise the events of the named conversations get new ids. With `called`,
    the only named conversation is copied under this name, with other uuids, so that it may exist a second time.
    `progress` receives the messages done and in all.

    Raises CommandError, with nothing written, if a name is unknown or taken, if a conversation has grown in both
    databases, or if a whole database is to be copied into one with contents of its own; DamagedError at a damaged
    event; StoreError if the two differ afterwards.
    """
    if source is target:
        raise CommandError(f"{shown(source.address)} is the source of the copy; name another database")
    with source.read() as moment:
        wanted = scope(moment, names, called)
        addresses = (shown(source.address), shown(target.address))
        if called is None:
            try:
                return Copy(moment, target, addresses, wanted, progress).run()
            except OwnContentsError:
                if wanted.whole:
                    raise
        return Addition(moment, target, addresses, wanted, progress, called).run()
