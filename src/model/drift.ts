/** What is pinned of a server, and what is done about what differs from it. Types of several rooms; see docs/drift.md. */

/** What becomes of a definition that nobody approved: nothing, told, kept back, or refused. */
export type DriftPolicy = 'off' | 'warn' | 'hold' | 'block';

/** Lists whose items are pinned, and kept back, one by one. Resources are data that come and go, and are not. */
export type PinnedKind = 'tools' | 'prompts' | 'resourceTemplates';

/** What is pinned. `instructions` has at most one, under the empty key. */
export type PinnedList = PinnedKind | 'instructions';
export const PINNED_LISTS: readonly PinnedList[] = ['tools', 'prompts', 'resourceTemplates', 'instructions'];

/** One definition by its place. */
export interface DefinitionName {
  readonly list: PinnedList;
  /** Name or URI template; empty for instructions. */
  readonly key: string;
}

/** A definition as a server wrote it. */
export interface Definition extends DefinitionName {
  /** Hexadecimal SHA-256 of its canonical form (`definitionDigest`). */
  readonly digest: string;
  readonly bytes: Buffer;
}

export interface ApprovedDefinition {
  readonly digest: string;
  /** As the server wrote it; null for one too large to be kept. */
  readonly definition: Buffer | null;
  /** Wall clock. */
  readonly at: number;
  readonly by: string;
}

/** What was decided about one name of a server. */
export interface Pin extends DefinitionName {
  /** Every definition that may be offered under the name, the latest approval last; bounded. */
  readonly approved: readonly ApprovedDefinition[];
  /** Set: nothing is offered under this name, whatever its definition, until one is approved. */
  readonly blocked: { readonly at: number; readonly by: string } | null;
}

/** All that was decided about one server; an immutable snapshot. */
export interface ServerPins {
  readonly server: string;
  /** When it first listed anything, and that was trusted. Wall clock; null for never. */
  readonly trustedAt: number | null;
  /** By `pinKey`. */
  readonly pins: ReadonlyMap<string, Pin>;
}

export type DriftEventKind = 'trusted' | 'added' | 'changed' | 'removed' | 'approved' | 'blocked';

/** One line of a server's history. */
export interface DriftEvent {
  /** Wall clock. */
  readonly at: number;
  readonly kind: DriftEventKind;
  /** null for `trusted`, which is of the whole server. */
  readonly name: DefinitionName | null;
  readonly digest: string | null;
  /** The digest that was approved before; null where there was none. */
  readonly before: string | null;
  readonly severity: Severity | null;
  /** Who decided; null for what the server did. */
  readonly by: string | null;
  /** For people: what of it. */
  readonly text: string;
}

/** An event as it is kept. */
export interface DriftRecord extends DriftEvent {
  /** Names the event among those of its server; a page goes on after one. */
  readonly id: string;
}

/** How grave a change is for those who use the definition. */
export type Severity = 'breaking' | 'behaviour' | 'wording';

/**
 * What the scan found in a text that models read. `hidden`: characters that nobody sees. `instruction`: words to a model
 * rather than about the tool. `secret_place`: where keys lie. `markup`: the frames of prompts. `lookalike`: letters of two
 * scripts in one word. `encoded`: what nobody can read. `other_server`: names of another server. `same_name`: another
 * server has one of that name. `oversized`: too much text to be looked at.
 */
export type FindingKind =
  | 'hidden'
  | 'instruction'
  | 'secret_place'
  | 'markup'
  | 'lookalike'
  | 'encoded'
  | 'other_server'
  | 'same_name'
  | 'oversized';

export interface Finding {
  readonly list: PinnedList | 'resources';
  readonly key: string;
  readonly kind: FindingKind;
  /** Hardly ever innocent: under `hold` and `block` not even first use is trusted. */
  readonly grave: boolean;
  /** Where: JSON Pointer into the definition. */
  readonly pointer: string;
  /** Printable, and short. */
  readonly excerpt: string;
}

/** One field of a changed definition, for people. */
export interface FieldDifference {
  /** JSON Pointer; empty for the whole definition. */
  readonly pointer: string;
  /** JSON texts, cut where they are long; null where the field is absent. */
  readonly before: string | null;
  readonly after: string | null;
  /** Of texts: word by word. */
  readonly words: readonly WordRun[] | null;
}

/** A run of words that stayed, went or came. */
export interface WordRun {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
}

/** Something that differs from what was approved, and waits for somebody to decide. */
export interface WaitingDefinition extends DefinitionName {
  readonly change: 'added' | 'changed' | 'removed' | 'blocked';
  /** Of what the server offers now; null where it is gone. Whoever approves says this. */
  readonly digest: string | null;
  /** Of what was approved last; null for nothing. */
  readonly before: string | null;
  readonly severity: Severity;
  readonly reasons: readonly string[];
  /** What clients are offered meanwhile: what the server says now, what was approved, or nothing. */
  readonly offered: 'present' | 'approved' | 'nothing';
  readonly fields: readonly FieldDifference[];
}

/** How a server stands to what was approved of it. */
export interface DriftReport {
  readonly server: string;
  readonly policy: DriftPolicy;
  /** Wall clock of first use; null while nothing was seen of it. */
  readonly trustedAt: number | null;
  readonly pinned: number;
  /** Whether its lists are known now; what waits is not known without. */
  readonly listed: boolean;
  readonly waiting: readonly WaitingDefinition[];
  readonly findings: readonly Finding[];
  /** What is wrong with keeping the pins; null while nothing is. */
  readonly problem: string | null;
}

/** The same in numbers. */
export interface DriftSummary {
  readonly policy: DriftPolicy;
  readonly waiting: number;
  /** Of those: not offered as the server says it. */
  readonly withheld: number;
  readonly findings: number;
  readonly problem: string | null;
}

export function pinKey({ list, key }: DefinitionName): string {
  return `${list} ${key}`;
}

export function noPins(server: string): ServerPins {
  return { server, trustedAt: null, pins: new Map() };
}

/** What is changed of one server's pins: all of it or none. */
export interface PinsChange {
  readonly trustedAt?: number;
  /** Written in place of what stands there under the same name. */
  readonly pins: readonly Pin[];
  readonly removed: readonly DefinitionName[];
  readonly events: readonly DriftEvent[];
}

/**
 * Pins and history where they outlive the process. Rejects when the database does not give or take them: what is
 * pinned is never silently less.
 */
export interface PinRecords {
  load(): Promise<readonly ServerPins[]>;
  /** All or nothing, durable when it resolves; false when somebody else changed these pins since they were read. */
  save(server: string, change: PinsChange): Promise<boolean>;
  /** The newest first; bounded per server. */
  history(
    server: string,
    options: { readonly limit: number; readonly after?: string },
  ): Promise<readonly DriftRecord[]>;
  /** Takes away everything of a server, its history too. */
  forget(server: string): Promise<void>;
}

/** The pins of all servers as they are now. Implemented by `registry/`. */
export interface Pins {
  /** From memory. */
  of(server: string): ServerPins;
  /** Something was trusted of the server once, and the pins are gone: what it says now is no first use. */
  isLost(server: string): boolean;
  /** The first time that anything is seen of a server. Never rejects: what cannot be saved is known until the end of this process. */
  trust(server: string, definitions: readonly Definition[], text: string): Promise<void>;
  /** Whether this kind of client was never listed before; remembered over restarts. */
  isFirstOf(server: string, kind: string): boolean;
  /** Adds to the history only. Never rejects. */
  note(server: string, events: readonly DriftEvent[]): Promise<void>;
  approve(server: string, approved: readonly Definition[], gone: readonly DefinitionName[], by: string): Promise<void>;
  block(server: string, names: readonly DefinitionName[], by: string): Promise<void>;
  history(
    server: string,
    options: { readonly limit: number; readonly after?: string },
  ): Promise<readonly DriftRecord[]>;
  /** What is wrong with keeping them; null while all is saved. */
  readonly problem: string | null;
}

const BY_KIND = 'first use by one kind of client: ';

/** Stands for the person in approvals of what one kind of client alone is offered. */
export function byKind(kind: string): string {
  return BY_KIND + kind;
}

/** The kind of client that alone was offered it when it was approved; null for any other. */
export function onlyKindOf({ approved }: Pin): string | null {
  const by = approved.at(-1)?.by ?? '';
  return by.startsWith(BY_KIND) ? by.slice(BY_KIND.length) : null;
}
