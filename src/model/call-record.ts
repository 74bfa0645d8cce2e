import {
  count,
  described,
  type Infer,
  integer,
  isoTime,
  list,
  milliseconds,
  named,
  nullable,
  object,
  oneOf,
  optional,
  text,
} from './schema.ts';

export const CALL_OUTCOMES = ['RESULT', 'NOT_SENT', 'UNKNOWN', 'REFUSED'] as const;

export const CALL_ATTEMPT = named(
  'CallAttempt',
  object({
    atMs: described(milliseconds, 'When it began, from the arrival of the call.'),
    ms: described(milliseconds, 'Until it ended.'),
    node: described(nullable(text), 'The node that had it; null for a lone gateway.'),
    connection: described(
      nullable(text),
      'The connection to the server that had it; null where none had, or is known.',
    ),
    pid: described(nullable(integer), "The server's process at that connection."),
    outcome: oneOf(CALL_OUTCOMES),
    reason: described(nullable(text), 'Why it failed; null for one that was answered.'),
  }),
);
export type CallAttempt = Infer<typeof CALL_ATTEMPT>;

export const CALL = named(
  'Call',
  object({
    id: described(text, 'Unique over all nodes: names the call in paths.'),
    request: described(text, 'Names it in the log of its node.'),
    time: described(isoTime, 'When it came in.'),
    ms: described(milliseconds, 'Until it was answered.'),
    waitedMs: described(nullable(milliseconds), 'Until it was given to its server; null where that did not happen.'),
    method: text,
    endpoint: text,
    client: described(nullable(text), 'Name and version that the client gives itself.'),
    principal: text,
    session: described(nullable(text), 'Label of its session.'),
    revision: text,
    server: nullable(text),
    name: described(
      nullable(text),
      "The server's own name of the tool or prompt, or the URI; null where the request names none, or none that leads anywhere.",
    ),
    asked: described(
      optional(text),
      'What the client named, where the call ended before that led to anything of a server: `reason` says why.',
    ),
    outcome: oneOf(CALL_OUTCOMES),
    error: described(
      nullable(text),
      'The JSON-RPC error code, or `tool_error` where the tool says that it failed; null for success.',
    ),
    reason: described(nullable(text), 'Why the gateway refused it or could not make it.'),
    requestBytes: count,
    answerBytes: count,
    node: described(nullable(text), 'The node that its client is connected to; null for a lone gateway.'),
    servedBy: described(nullable(text), 'The other node that had the server; null where it was this one.'),
    tries: described(count, 'How often it was tried: more than 1 where a node, or a connection to its server, failed.'),
    attempts: described(
      optional(list(CALL_ATTEMPT)),
      'The last of them, oldest first; absent where the first was the only one.',
    ),
    trace: described(nullable(text), 'Trace id; null where no trace was recorded.'),
  }),
  'One request of a client, from its arrival to its answer.',
);
export type CallRecord = Infer<typeof CALL>;
