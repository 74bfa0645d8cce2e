import { count, described, flag, type Infer, list, named, nullable, object, oneOf, text } from './schema.ts';

/** Which callers may use which servers and tools, as the call policies decide. Types that several modules share. */

const POLICY = named(
  'PolicyName',
  oneOf(['access', 'toolFilter', 'approved', 'paramHeaders', 'rateLimit']),
  'In the order in which they are asked. `access`: `agents.<name>.servers`. `toolFilter`: `includeTools`, `excludeTools`. `approved`: drift. `paramHeaders`: `Mcp-Param-*` headers. `rateLimit`: `limits.callsPerMinute`.',
);
export type PolicyName = Infer<typeof POLICY>;

const VERDICT = named(
  'PolicyVerdict',
  object({
    policy: POLICY,
    verdict: described(
      oneOf(['passed', 'refused', 'undecided']),
      '`undecided`: the server was not listed yet; the call would list it first.',
    ),
    code: described(nullable(text), 'Of the error that the caller would get.'),
    reason: nullable(text),
  }),
);
export type PolicyVerdict = Infer<typeof VERDICT>;

const REFUSAL = { policy: POLICY, code: text, reason: text };
const REFUSED_TOOL = object({ tool: text, ...REFUSAL });

const SERVER_ACCESS = object({
  server: text,
  refusal: described(nullable(object(REFUSAL)), 'Why the caller may not use the server at all; null where it may.'),
  allowed: described(count, 'How many of its tools the caller may call.'),
  refused: described(list(REFUSED_TOOL), 'The others, each with the policy that decides.'),
});
export type ServerAccess = Infer<typeof SERVER_ACCESS>;

const CALLER = named(
  'Caller',
  object({
    principal: text,
    name: text,
    variable: described(nullable(text), 'The environment variable that holds the key; null where no file names one.'),
    servers: described(list(SERVER_ACCESS), 'In the order of `servers` of the answer.'),
  }),
);
export type CallerAccess = Infer<typeof CALLER>;

const OFFERED = object({
  server: text,
  listed: described(flag, 'Whether its tools are known.'),
  tools: described(list(text), 'Its tools by their own names, with those that it withholds from all callers.'),
});
export type OfferedTools = Infer<typeof OFFERED>;

export const ACCESS = named(
  'Access',
  object({
    unknownCallers: described(
      oneOf(['refuse', 'allow']),
      'What callers without a known key get: nothing, or everything; without agents everything.',
    ),
    servers: list(OFFERED),
    callers: described(list(CALLER), '`anonymous` is one of them if it is allowed.'),
  }),
);
export type AccessTable = Infer<typeof ACCESS>;

export const EXPLANATION = named(
  'Explanation',
  object({
    principal: text,
    server: text,
    tool: text,
    known: described(flag, 'Whether the server is known to have a tool of this name.'),
    allowed: flag,
    decidedBy: described(nullable(POLICY), 'The policy that refuses; null where none does.'),
    verdicts: described(list(VERDICT), 'In the order in which the policies are asked, up to the one that refuses.'),
  }),
);
export type CallExplanation = Infer<typeof EXPLANATION>;
