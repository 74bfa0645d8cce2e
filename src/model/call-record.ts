import { count, described, type Infer, isoTime, milliseconds, named, nullable, object, oneOf, text } from './schema.ts';

export const CALL_OUTCOMES = ['RESULT', 'NOT_SENT', 'UNKNOWN', 'REFUSED'] as const;

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
    name: described(nullable(text), "The server's own name of the tool or prompt, or the URI."),
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
    tries: described(count, 'How often it was given to a node; more than 1 where nodes failed before it began.'),
    trace: described(nullable(text), 'Trace id; null where no trace was recorded.'),
  }),
  'One request of a client, from its arrival to its answer.',
);
export type CallRecord = Infer<typeof CALL>;
