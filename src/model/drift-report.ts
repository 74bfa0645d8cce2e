import {
  count,
  described,
  flag,
  type Infer,
  isoTime,
  list,
  named,
  nullable,
  object,
  oneOf,
  text,
  wallTime,
} from './schema.ts';

/** What is pinned, each list with its own names. `instructions` has at most one, under the empty key. */
export const PINNED_LISTS = ['tools', 'prompts', 'resourceTemplates', 'instructions'] as const;
const PINNED_LIST = named('PinnedList', oneOf(PINNED_LISTS));
export type PinnedList = Infer<typeof PINNED_LIST>;

const POLICY = named(
  'DriftPolicy',
  described(
    oneOf(['off', 'warn', 'hold', 'block']),
    'What happens to a definition that is not approved: nothing, a warning, the approved one is offered, or none.',
  ),
);
export type DriftPolicy = Infer<typeof POLICY>;

/** One definition by its place. */
const DEFINITION_NAME = {
  list: PINNED_LIST,
  key: described(text, 'Name or URI template; empty for instructions.'),
};
const NAME = object(DEFINITION_NAME);
export type DefinitionName = Infer<typeof NAME>;

const SEVERITY = named(
  'Severity',
  described(
    oneOf(['breaking', 'behaviour', 'wording']),
    'Whether valid calls can fail now, or more than words changed, or words alone.',
  ),
);
export type Severity = Infer<typeof SEVERITY>;

const WORD_RUN = object({ kind: oneOf(['same', 'removed', 'added']), text });
/** A run of words that stayed, went or came. */
export type WordRun = Infer<typeof WORD_RUN>;

const FIELD = named(
  'FieldDifference',
  object({
    pointer: described(text, 'JSON Pointer into the definition; empty for all of it.'),
    before: described(nullable(text), 'JSON text; null where the field was absent.'),
    after: described(nullable(text), 'JSON text; null where the field is absent.'),
    words: described(nullable(list(WORD_RUN)), 'Of texts: word by word.'),
  }),
);
/** One field of a changed definition, for people. */
export type FieldDifference = Infer<typeof FIELD>;

const WAITING = named(
  'WaitingDefinition',
  object({
    ...DEFINITION_NAME,
    change: oneOf(['added', 'changed', 'removed', 'blocked']),
    digest: described(nullable(text), 'Of what the server offers now; null where it is gone. An approval names it.'),
    before: described(nullable(text), 'Of what was approved last.'),
    severity: SEVERITY,
    reasons: list(text),
    offered: described(
      oneOf(['present', 'approved', 'nothing']),
      'What clients are offered meanwhile: what the server says now, what was approved, or nothing.',
    ),
    fields: list(FIELD),
  }),
);
/** A difference from what was approved that waits for a decision. */
export type WaitingDefinition = Infer<typeof WAITING>;

const FINDING_KIND = described(
  oneOf([
    'hidden',
    'instruction',
    'secret_place',
    'markup',
    'lookalike',
    'encoded',
    'other_server',
    'same_name',
    'oversized',
  ]),
  '`hidden`: invisible characters. `instruction`: words to a model rather than about the tool. `secret_place`: where keys are kept. `markup`: the frames of prompts. `lookalike`: letters of two scripts in one word. `encoded`: text that people cannot read. `other_server`: the name of another server. `same_name`: another server has a tool of that name. `oversized`: more text than the scan reads.',
);
/** What the scan found in a text that models read. */
export type FindingKind = Infer<typeof FINDING_KIND>;

const FINDING = named(
  'Finding',
  object({
    list: oneOf([...PINNED_LISTS, 'resources']),
    key: text,
    kind: FINDING_KIND,
    grave: described(flag, 'Hardly ever innocent: under `hold` and `block` it is not trusted at first use either.'),
    pointer: described(text, 'JSON Pointer into the definition.'),
    excerpt: described(text, 'Printable, and short.'),
  }),
);
export type Finding = Infer<typeof FINDING>;

export const DRIFT_REPORT = named(
  'DriftReport',
  object({
    server: text,
    policy: POLICY,
    trustedAt: described(nullable(wallTime), 'First use, in milliseconds since 1970; null before it.'),
    pinned: count,
    listed: described(flag, 'Whether it is known what the server offers now.'),
    waiting: list(WAITING),
    findings: list(FINDING),
    problem: described(nullable(text), 'Why pins are not saved.'),
  }),
);
/** How a server differs from what was approved of it. */
export type DriftReport = Infer<typeof DRIFT_REPORT>;

export const DRIFT_SUMMARY = named(
  'DriftSummary',
  object({
    policy: POLICY,
    waiting: count,
    withheld: described(count, 'Of those: not offered as the server says it.'),
    findings: count,
    problem: nullable(text),
  }),
);
export type DriftSummary = Infer<typeof DRIFT_SUMMARY>;

const EVENT_KIND = oneOf(['trusted', 'added', 'changed', 'removed', 'approved', 'blocked']);
export type DriftEventKind = Infer<typeof EVENT_KIND>;

/** One line of a server's history, without its time. */
export const DRIFT_EVENT = {
  kind: EVENT_KIND,
  name: described(nullable(NAME), 'null for `trusted`, which concerns the whole server.'),
  digest: nullable(text),
  before: described(nullable(text), 'The digest that was approved before.'),
  severity: nullable(SEVERITY),
  by: described(nullable(text), 'Who decided; null for what the server did.'),
  text,
};
const EVENT = object({ at: wallTime, ...DRIFT_EVENT });
/** One line of a server's history. */
export type DriftEvent = Infer<typeof EVENT>;

export const DRIFT_HISTORY = named(
  'DriftHistory',
  object({ events: list(named('DriftRecord', object({ id: text, at: isoTime, ...DRIFT_EVENT }))) }),
);
