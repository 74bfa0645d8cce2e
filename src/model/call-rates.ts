import { count, described, type Infer, isoTime, milliseconds, named, nullable, object, text } from './schema.ts';

const FIGURES = {
  calls: count,
  errors: count,
  p50: described(nullable(milliseconds), 'Of the calls of this second; null where there was none.'),
  p95: nullable(milliseconds),
  p99: nullable(milliseconds),
};
const CALL_FIGURES = object(FIGURES);
/** Counters of the calls that ended in one second. */
export type CallFigures = Infer<typeof CALL_FIGURES>;

/** Counters of all calls of a node. */
export const SECOND = {
  time: described(isoTime, 'The end of the second, a whole one.'),
  ...FIGURES,
};
export const CALL_SECOND = named('CallSecond', object(SECOND), 'What the clients of a node called in one second.');
export type CallSecond = Infer<typeof CALL_SECOND>;

export const SERVER_RATE = named(
  'ServerRate',
  object({ server: text, ...FIGURES, inFlight: count }),
  'What a server has done in the last second.',
);
export type ServerRate = Infer<typeof SERVER_RATE>;

export const CLIENT_RATE = named(
  'ClientRate',
  object({
    client: described(nullable(text), 'Name and version that it gives itself; null where it gives none.'),
    revision: described(text, 'That of its last call.'),
    ...FIGURES,
  }),
  'What clients of one name have called in the last second.',
);
export type ClientRate = Infer<typeof CLIENT_RATE>;
