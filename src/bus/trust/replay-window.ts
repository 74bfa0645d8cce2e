/** Counters this far behind the highest one of their sender are too old to be told from replays. */
const WIDTH = 4096;
/** Senders remembered at once. A sender is forgotten when everything it may have signed is too old anyway. */
const MAX_SENDERS = 4096;

interface Sender {
  highest: number;
  lastMs: number;
  readonly seen: Uint8Array;
}

/** Which messages of which sender came already: each is taken once. Senders count their messages. */
export class ReplayWindow {
  readonly #senders = new Map<string, Sender>();
  readonly #rememberMs: number;

  constructor(rememberMs: number) {
    this.#rememberMs = rememberMs;
  }

  /** Whether the message with this number is new; it is not from then on. */
  take(from: string, counter: number, nowMs: number): boolean {
    let sender = this.#senders.get(from);
    if (sender === undefined) {
      if (this.#senders.size >= MAX_SENDERS) this.#forget(nowMs);
      if (this.#senders.size >= MAX_SENDERS) return false;
      sender = { highest: counter, lastMs: nowMs, seen: new Uint8Array(WIDTH / 8) };
      this.#senders.set(from, sender);
      mark(sender.seen, counter, true);
      return true;
    }
    sender.lastMs = nowMs;
    if (counter <= sender.highest - WIDTH) return false;
    if (counter <= sender.highest) {
      if (marked(sender.seen, counter)) return false;
    } else {
      if (counter - sender.highest >= WIDTH) sender.seen.fill(0);
      else for (let at = sender.highest + 1; at < counter; at++) mark(sender.seen, at, false);
      sender.highest = counter;
    }
    mark(sender.seen, counter, true);
    return true;
  }

  #forget(nowMs: number): void {
    for (const [name, { lastMs }] of this.#senders) if (nowMs - lastMs > this.#rememberMs) this.#senders.delete(name);
  }
}

function mark(seen: Uint8Array, counter: number, value: boolean): void {
  const at = counter % WIDTH;
  const bit = 1 << (at & 7);
  if (value) seen[at >> 3]! |= bit;
  else seen[at >> 3]! &= ~bit;
}

function marked(seen: Uint8Array, counter: number): boolean {
  const at = counter % WIDTH;
  return (seen[at >> 3]! & (1 << (at & 7))) !== 0;
}
