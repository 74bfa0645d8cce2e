/** A canonical number of at most ten digits is a safe integer. */
const EVENT_ID = /^(.*)~(0|[1-9a-z][0-9a-z]{0,9})$/;

/** The id of an event on a client's stream. Numbers increase over all streams of a node. */
export function eventIdOf(stream: string, seq: number): string {
  return `${stream}~${seq.toString(36)}`;
}

/** Null unless the text is exactly an id as `eventIdOf` writes it: clients may send any text. */
export function readEventId(text: string): { readonly stream: string; readonly seq: number } | null {
  const [, stream, seq] = EVENT_ID.exec(text) ?? [];
  return stream === undefined ? null : { stream, seq: Number.parseInt(seq!, 36) };
}
