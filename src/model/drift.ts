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

/** Lists whose items are pinned and withheld one by one. Resources are data that change often and are not pinned. */
export const PINNED_KINDS = ['tools', 'prompts', 'resourceTemplates'] as const;
export type PinnedKind = (typeof PINNED_KINDS)[number];

/** The pinned lists, each with its own names. `instructions` has at most one entry, under the empty key. */
export const PINNED_LISTS = [...PINNED_KINDS, 'instructions'] as const;
const PINNED_LIST = named('PinnedList', oneOf(PINNED_LISTS));
export type PinnedList = Infer<typeof PINNED_LIST>;

const POLICY = named(
  'DriftPolicy',
  oneOf(['off', 'warn', 'hold', 'block']),
  'What happens to a definition that is not approved: nothing, a warning, the approved one is offered, or none.',
);
export type DriftPolicy = Infer<typeof POLICY>;

const DEFINITION_NAME = {
  list: PINNED_LIST,
  key: described(text, 'Name or URI template; empty for instructions.'),
};
const NAME = object(DEFINITION_NAME);
export type DefinitionName = Infer<typeof NAME>;

const SEVERITY = named(
  'Severity',
  oneOf(['breaking', 'behaviour', 'wording']),
  'Whether valid calls can fail now, or more than words changed, or words alone.',
);
export type Severity = Infer<typeof SEVERITY>;

const WORD_RUN = object({ kind: oneOf(['same', 'removed', 'added']), text });
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
/** What the scan found in text that models read. */
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

const DRIFT_EVENT = {
  kind: EVENT_KIND,
  name: described(nullable(NAME), 'null for `trusted`, which concerns the whole server.'),
  digest: nullable(text),
  before: described(nullable(text), 'The digest that was approved before.'),
  severity: nullable(SEVERITY),
  by: described(nullable(text), 'Who decided; null for what the server did.'),
  text,
};
const EVENT = object({ at: wallTime, ...DRIFT_EVENT });
export type DriftEvent = Infer<typeof EVENT>;

export const DRIFT_HISTORY = named(
  'DriftHistory',
  object({ events: list(named('DriftRecord', object({ id: text, at: isoTime, ...DRIFT_EVENT }))) }),
);

/** Pins of a server, and the handling of definitions that differ from them. Shared types; see docs/drift.md. */

export interface Definition extends DefinitionName {
  /** Hexadecimal SHA-256 of the canonical form (`definitionDigest`). */
  readonly digest: string;
  readonly bytes: Buffer;
}

export interface ApprovedDefinition {
  readonly digest: string;
  /** As the server wrote it; null if it is too large to be stored. */
  readonly definition: Buffer | null;
  /** Wall clock. */
  readonly at: number;
  readonly by: string;
}

export interface Pin extends DefinitionName {
  /** Every definition that may be offered under the name, the latest approval last; bounded. */
  readonly approved: readonly ApprovedDefinition[];
  /** If set, no definition is offered under this name until one is approved. */
  readonly blocked: { readonly at: number; readonly by: string } | null;
}

/** All decisions about one server; an immutable snapshot. */
export interface ServerPins {
  readonly server: string;
  /** Wall-clock time at which the first listing was trusted; null if none was. */
  readonly trustedAt: number | null;
  /** By `pinKey`. */
  readonly pins: ReadonlyMap<string, Pin>;
}

export interface DriftRecord extends DriftEvent {
  /** Unique among the events of its server; the cursor of the next page. */
  readonly id: string;
}

export function pinKey({ list, key }: DefinitionName): string {
  return `${list} ${key}`;
}

export function noPins(server: string): ServerPins {
  return { server, trustedAt: null, pins: new Map() };
}

export interface PinsChange {
  readonly trustedAt?: number;
  /** Each replaces the pin of the same name. */
  readonly pins: readonly Pin[];
  readonly removed: readonly DefinitionName[];
  readonly events: readonly DriftEvent[];
  /** It may be stored part by part, `trustedAt` after the pins; otherwise all of it is stored or nothing. */
  readonly inParts?: true;
}

/** The current pins of all servers. Implemented by `registry/`. */
export interface Pins {
  of(server: string): ServerPins;
  /** A listing of the server was trusted before and its pins are gone, so the present listing is no first use. */
  isLost(server: string): boolean;
  /** Trusts the first listing of a server. Never rejects: what cannot be saved is kept until this process ends. */
  trust(server: string, definitions: readonly Definition[], text: string): Promise<void>;
  /** Whether this kind of client is new, of the first 128 kinds of a server; remembered across restarts. */
  isFirstListing(server: string, kind: string): boolean;
  /** Adds to the history only. Never rejects. */
  note(server: string, events: readonly DriftEvent[]): Promise<void>;
  approve(server: string, approved: readonly Definition[], gone: readonly DefinitionName[], by: string): Promise<void>;
  block(server: string, names: readonly DefinitionName[], by: string): Promise<void>;
  history(
    server: string,
    options: { readonly limit: number; readonly after?: string },
  ): Promise<readonly DriftRecord[]>;
  /** Why pins cannot be saved; null while all are saved. */
  readonly problem: string | null;
}

const BY_KIND = 'first use by one kind of client: ';

/** The approver of definitions that only one kind of client is offered. */
export function byKind(kind: string): string {
  return BY_KIND + kind;
}

/** The only kind of client that was offered the definition when it was approved; null for any other. */
export function onlyKindOf({ approved }: Pin): string | null {
  const by = approved.at(-1)?.by ?? '';
  return by.startsWith(BY_KIND) ? by.slice(BY_KIND.length) : null;
}
