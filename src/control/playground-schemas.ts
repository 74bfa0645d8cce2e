import { REVISIONS } from '../model/message.ts';
import {
  anyObject,
  count,
  described,
  flag,
  type Infer,
  list,
  named,
  nullable,
  object,
  oneOf,
  optional,
  text,
  union,
} from '../model/schema.ts';

export const PLAY = named(
  'Play',
  object({
    method: described(text, 'Of the protocol: `tools/call`, `prompts/get`, `resources/read`, a list, …'),
    params: optional(anyObject),
    revision: described(oneOf(REVISIONS), 'The revision of the protocol that the client speaks.'),
    server: described(optional(nullable(text)), 'Its endpoint; that of all servers where it is null.'),
    principal: described(optional(nullable(text)), 'An agent of the configuration, or `anonymous`; else the operator.'),
    capabilities: described(
      optional(anyObject),
      'What the client says that it can do; by default it takes elicitation, sampling and MCP Apps.',
    ),
  }),
  'A call, and the client that makes it.',
);
export type PlayBody = Infer<typeof PLAY>;

const ms = described(count, 'Milliseconds since the call began.');
const MESSAGE = described(anyObject, 'A message of the protocol, as it was on the wire.');

export const PLAY_STEP = union(
  object({ ms, run: described(text, 'Names the call for `answerPlay`.') }),
  object({ ms, sent: MESSAGE }),
  object({ ms, received: MESSAGE }),
  object({
    ms,
    question: named(
      'PlayQuestion',
      object({ key: text, method: text, params: anyObject }),
      'The server waits for an answer of the client.',
    ),
  }),
  object({
    ms,
    done: named(
      'PlayEnd',
      object({ outcome: oneOf(['RESULT', 'NOT_SENT', 'UNKNOWN', 'REFUSED', 'CANCELLED']), reason: nullable(text) }),
      'The last step. The answer itself is the last message that was received.',
    ),
  }),
);

export const PLAY_ANSWER = named(
  'PlayAnswer',
  object({
    question: described(optional(text), 'Its key.'),
    result: optional(anyObject),
    error: described(optional(anyObject), 'With `code` and `message`, in place of a result.'),
    cancel: described(optional(text), 'Cancels the call, for this reason; nothing else is needed then.'),
  }),
);
export const ANSWERED = object({ taken: flag });

const domains = optional(list(text));
export const APP_DOCUMENT = named(
  'AppDocument',
  object({
    html: text,
    csp: described(
      optional(object({ connectDomains: domains, resourceDomains: domains, frameDomains: domains })),
      'As `_meta.ui.csp` of the resource; nothing else may be reached.',
    ),
  }),
  'The document of an MCP App.',
);
export const APP_FRAME = object({ path: described(text, 'Relative to the console; serves the document once.') });
