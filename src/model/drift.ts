import type { DefinitionName, DriftEvent } from './drift-report.ts';

/** What is pinned of a server, and what is done about what differs from it. Types of several rooms; see docs/drift.md. */

/** Lists whose items are pinned, and kept back, one by one. Resources are data that come and go, and are not. */
export type PinnedKind = 'tools' | 'prompts' | 'resourceTemplates';

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

/** An event as it is kept. */
export interface DriftRecord extends DriftEvent {
  /** Names the event among those of its server; a page goes on after one. */
  readonly id: string;
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
