import type { ServerPins } from '../../model/drift.ts';
import { pinKey } from '../../model/drift.ts';
import type { DefinitionName, DriftPolicy, PinnedList, Severity } from '../../model/drift-report.ts';
import type { Capability } from '../../model/server-catalog.ts';
import { digestOf } from './definition-digest.ts';
import { judgeChange } from './severity.ts';

/** What holds for one server at one instant: what was approved, and what is done about the rest. */
export interface Guard {
  readonly policy: DriftPolicy;
  readonly pins: ServerPins;
}

/** How a definition stands to what was approved under its name. */
export type Standing = 'approved' | 'new' | 'changed' | 'blocked';

export function standingOf({ pins, trustedAt }: ServerPins, name: DefinitionName, digest: string): Standing {
  const pin = pins.get(pinKey(name));
  if (pin?.blocked) return 'blocked';
  // Nothing was seen of this server yet: what is seen first is trusted when it has been listed.
  if (trustedAt === null) return 'approved';
  if (pin === undefined || pin.approved.length === 0) return 'new';
  return pin.approved.some((one) => one.digest === digest) ? 'approved' : 'changed';
}

/**
 * What clients are offered for an item of a pinned list: its own bytes, an approved definition in its place, or null for
 * nothing. Under `hold` the approved one goes on being offered for as long as a call made by it is valid.
 */
export function offeredFor(list: PinnedList, item: Capability, { policy, pins }: Guard): Buffer | null {
  if (policy === 'off') return item.bytes;
  const standing = standingOf(pins, { list, key: item.key }, digestOf(item));
  if (standing === 'blocked') return null;
  if (standing === 'approved' || policy === 'warn') return item.bytes;
  if (standing === 'new' || policy === 'block') return null;
  const { approved } = pins.pins.get(pinKey({ list, key: item.key }))!;
  for (const { definition, digest } of approved.toReversed()) {
    if (definition !== null && severityOf(list, definition, digest, item) !== 'breaking') return definition;
  }
  return null;
}

/** Why it is not offered, in words for whoever calls it. */
export function whyWithheld(standing: Standing): string {
  if (standing === 'blocked') return 'is blocked by the operator';
  return standing === 'changed' ? 'has changed and waits for approval' : 'is new and waits for approval';
}

const SEVERITIES = new WeakMap<Buffer, Map<string, Severity>>();

function severityOf(list: PinnedList, old: Buffer, oldDigest: string, { bytes }: Capability): Severity {
  let known = SEVERITIES.get(bytes);
  if (known === undefined) SEVERITIES.set(bytes, (known = new Map()));
  let severity = known.get(oldDigest);
  if (severity === undefined) known.set(oldDigest, (severity = judgeChange(list, old, bytes).severity));
  return severity;
}
