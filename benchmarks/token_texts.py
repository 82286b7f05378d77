"""Texts of four kinds for `token_accuracy.py`, the same every time.

The English and the Chinese passages are in the public domain: Carroll (1865), Melville (1851), Austen (1813), Lincoln
(1863); Laozi, Lu Xun (1919 and 1921), Tao Yuanming, and the Analects.
"""

import json
import random
from collections.abc import Iterator
from itertools import cycle

KINDS = ("code", "JSON", "English", "Chinese")

ENGLISH = """\
Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or \
twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, “and \
what is the use of a book,” thought Alice “without pictures or conversations?” So she was considering in her own \
mind (as well as she could, for the hot day made her feel very sleepy and stupid), whether the pleasure of \
making a daisy-chain would be worth the trouble of getting up and picking the daisies, when suddenly a White \
Rabbit with pink eyes ran close by her.

Call me Ishmael. Some years ago—never mind how long precisely—having little or no money in my purse, and nothing \
particular to interest me on shore, I thought I would sail about a little and see the watery part of the world. \
It is a way I have of driving off the spleen and regulating the circulation. Whenever I find myself growing grim \
about the mouth; whenever it is a damp, drizzly November in my soul; whenever I find myself involuntarily \
pausing before coffin warehouses, and bringing up the rear of every funeral I meet, then I account it high time \
to get to sea as soon as I can.

It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a \
wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, \
this truth is so well fixed in the minds of the surrounding families, that he is considered the rightful \
property of some one or other of their daughters. “My dear Mr. Bennet,” said his lady to him one day, “have you \
heard that Netherfield Park is let at last?” Mr. Bennet replied that he had not.

Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, \
and dedicated to the proposition that all men are created equal. Now we are engaged in a great civil war, \
testing whether that nation, or any nation so conceived and so dedicated, can long endure. We are met on a great \
battle-field of that war. We have come to dedicate a portion of that field, as a final resting place for those \
who here gave their lives that that nation might live. It is altogether fitting and proper that we should do \
this."""

CHINESE = """\
道可道，非常道；名可名，非常名。无名天地之始，有名万物之母。故常无欲，以观其妙；常有欲，以观其徼。此两者，同出而\
异名，同谓之玄。玄之又玄，众妙之门。天下皆知美之为美，斯恶已；皆知善之为善，斯不善已。故有无相生，难易相成，长短\
相形，高下相倾，音声相和，前后相随。是以圣人处无为之事，行不言之教。上善若水。水善利万物而不争，处众人之所恶，故\
几于道。

鲁镇的酒店的格局，是和别处不同的：都是当街一个曲尺形的大柜台，柜里面预备着热水，可以随时温酒。做工的人，傍午傍晚\
散了工，每每花四文铜钱，买一碗酒，靠柜外站着，热热的喝了休息；倘肯多花一文，便可以买一碟盐煮笋，或者茴香豆，做下\
酒物了，如果出到十几文，那就能买一样荤菜，但这些顾客，多是短衣帮，大抵没有这样阔绰。只有穿长衫的，才踱进店面隔壁\
的房子里，要酒要菜，慢慢地坐喝。

我冒了严寒，回到相隔二千余里，别了二十余年的故乡去。时候既然是深冬；渐近故乡时，天气又阴晦了，冷风吹进船舱中，呜\
呜的响，从篷隙向外一望，苍黄的天底下，远近横着几个萧索的荒村，没有一些活气。我的心禁不住悲凉起来了。我想：希望是\
本无所谓有，无所谓无的。这正如地上的路；其实地上本没有路，走的人多了，也便成了路。

晋太元中，武陵人捕鱼为业。缘溪行，忘路之远近。忽逢桃花林，夹岸数百步，中无杂树，芳草鲜美，落英缤纷。渔人甚异之，\
复前行，欲穷其林。林尽水源，便得一山，山有小口，仿佛若有光。便舍船，从口入。初极狭，才通人。复行数十步，豁然开朗\
。土地平旷，屋舍俨然，有良田美池桑竹之属。阡陌交通，鸡犬相闻。

子曰：“学而时习之，不亦说乎？有朋自远方来，不亦乐乎？人不知而不愠，不亦君子乎？”曾子曰：“吾日三省吾身：为人谋\
而不忠乎？与朋友交而不信乎？传不习乎？”子曰：“温故而知新，可以为师矣。”子曰：“学而不思则罔，思而不学则殆。”"""

CODE = r'''
def merge(left: list[int], right: list[int]) -> list[int]:
    """Merge two sorted lists."""
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            found.append(left[i])
            i += 1
        else:
            found.append(right[j])
            j += 1
    return found + left[i:] + right[j:]


class Ledger:
    def __init__(self, path: Path) -> None:
        self._path, self._entries = path, {}

    def book(self, account: str, cents: int, *, at: datetime | None = None) -> None:
        if cents == 0:
            raise ValueError(f"nothing to book on {account!r}")
        self._entries.setdefault(account, []).append((at or datetime.now(UTC), cents))

    def balance(self, account: str) -> int:
        return sum(cents for _, cents in self._entries.get(account, ()))
%%
export interface Parcel { id: string; grams: number; stops: readonly Stop[]; delivered?: Date }

export async function track(id: string, fetcher: typeof fetch = fetch): Promise<Parcel> {
  const response = await fetcher(`/api/parcels/${encodeURIComponent(id)}`, { headers: { accept: "application/json" } });
  if (!response.ok) {
    throw new Error(`parcel ${id}: ${response.status} ${response.statusText}`);
  }
  const body = (await response.json()) as Parcel & { delivered?: string };
  return { ...body, delivered: body.delivered ? new Date(body.delivered) : undefined };
}

export function late(parcels: Parcel[], now = new Date()): Parcel[] {
  return parcels
    .filter((parcel) => !parcel.delivered && parcel.stops.some((stop) => stop.due < now))
    .sort((a, b) => a.stops[0].due.getTime() - b.stops[0].due.getTime());
}
%%
static int ring_push(struct ring *r, const uint8_t *data, size_t n)
{
    if (n > r->cap - r->len)
        return -ENOSPC;
    size_t tail = (r->head + r->len) & (r->cap - 1);
    size_t first = n < r->cap - tail ? n : r->cap - tail;
    memcpy(r->buf + tail, data, first);
    memcpy(r->buf, data + first, n - first);
    r->len += n;
    return 0;
}

int main(int argc, char **argv)
{
    struct ring r = { .cap = 1 << 12 };
    if (!(r.buf = malloc(r.cap))) {
        fprintf(stderr, "%s: out of memory\n", argv[0]);
        return EXIT_FAILURE;
    }
    for (int i = 1; i < argc; i++)
        ring_push(&r, (const uint8_t *)argv[i], strlen(argv[i]));
    free(r.buf);
    return EXIT_SUCCESS;
}
%%
CREATE TABLE IF NOT EXISTS orders (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id BIGINT NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
    placed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    status TEXT NOT NULL CHECK (status IN ('open', 'paid', 'shipped', 'returned'))
);
CREATE INDEX orders_open ON orders (customer_id, placed_at) WHERE status = 'open';

WITH spent AS (
    SELECT o.customer_id, date_trunc('month', o.placed_at) AS month, sum(l.quantity * l.cents) AS cents
    FROM orders AS o JOIN order_lines AS l ON l.order_id = o.id
    WHERE o.status <> 'returned' AND o.placed_at >= now() - interval '1 year'
    GROUP BY 1, 2
)
SELECT c.name, s.month, s.cents, rank() OVER (PARTITION BY s.month ORDER BY s.cents DESC) AS place
FROM spent AS s JOIN customers AS c ON c.id = s.customer_id ORDER BY s.month, place LIMIT 100;
%%
#!/usr/bin/env bash
set -euo pipefail
readonly target="${1:?usage: backup.sh TARGET [KEEP]}" keep="${2:-7}"
stamp=$(date -u +%Y%m%dT%H%M%SZ)
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT

for database in $(psql -Atc "SELECT datname FROM pg_database WHERE NOT datistemplate"); do
    pg_dump --format=custom --file="$tmp/$database.dump" "$database"
done
tar --zstd -cf "$target/backup-$stamp.tar.zst" -C "$tmp" .
find "$target" -name 'backup-*.tar.zst' -printf '%T@ %p\n' | sort -rn | tail -n +"$((keep + 1))" | cut -d' ' -f2- |
    while read -r old; do
        echo "removing $old" >&2
        rm -- "$old"
    done
'''


def texts(kind: str) -> Iterator[str]:
    """Yield endless texts of a kind, some 400 to 2,000 bytes each."""
    if kind == "JSON":
        return _json()
    parted = {"code": CODE.split("%%"), "English": ENGLISH.split("\n\n"), "Chinese": CHINESE.split("\n\n")}
    return cycle(part.strip() for part in parted[kind])


def _json() -> Iterator[str]:
    dice = random.Random(7)
    while True:
        records = [
            {
                "id": f"{dice.getrandbits(64):016x}",
                "created_at": f"2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}T{dice.randint(0, 23):02}:00:00Z",
                "status": dice.choice(["open", "closed", "waiting_for_customer"]),
                "amount": round(dice.uniform(1, 5000), 2),
                "tags": dice.sample(["billing", "urgent", "backend", "docs", "mobile", "search"], 2),
                "owner": {"name": dice.choice(["Ada", "Grace", "Edsger", "Barbara"]), "team": dice.randint(1, 40)},
                "note": None,
            }
            for _ in range(dice.randint(3, 9))
        ]
        yield json.dumps({"records": records, "next": dice.randint(10**6, 10**7)}, indent=dice.choice([None, 2]))
