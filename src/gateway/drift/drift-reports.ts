import { fieldChanges } from '../../catalog/drift/capability-drift.ts';
import { pinned } from '../../catalog/drift/definition-digest.ts';
import { offeredFor, standingOf } from '../../catalog/drift/guarded-catalog.ts';
import { judgeChange } from '../../catalog/drift/severity.ts';
import { wordDiff } from '../../catalog/drift/word-diff.ts';
import {
  type Definition,
  type DriftReport,
  type DriftSummary,
  type FieldDifference,
  type Finding,
  type Pin,
  pinKey,
  type WaitingDefinition,
} from '../../model/drift.ts';
import { Pace } from '../../model/pace.ts';
import type { Guards } from './guards.ts';
import { type DriftParts, scanCatalog } from './inspection.ts';

/** Definitions of one report; more are counted in the summary and come when these are decided. */
const MAX_WAITING = 500;
const MAX_FIELDS = 100;
/** Of one JSON text of a report. */
const MAX_TEXT = 8_192;
/** Larger definitions are compared whole. */
const MAX_COMPARED = 64 * 1024;

/** What differs from what was approved, in full, for the operator who decides. */
export async function driftReport(parts: DriftParts, server: string): Promise<DriftReport> {
  const { pins, guards, offered, now } = parts;
  const pace = new Pace(now);
  const guard = guards.of(server);
  const waiting: WaitingDefinition[] = [];
  for (const one of differing(parts, server)) {
    if (waiting.length === MAX_WAITING) break;
    waiting.push(isPin(one) ? removed(one) : describe(one, guard));
    await pace.step();
  }
  const findings: Finding[] = [];
  if (guard.policy !== 'off') {
    const others = offered.others(server, null);
    for (const catalog of offered.catalogs(server)) findings.push(...(await scanCatalog(catalog, others, pace)));
    offered.found(server, distinct(findings));
  }
  return {
    server,
    policy: guard.policy,
    trustedAt: guard.pins.trustedAt,
    pinned: guard.pins.pins.size,
    listed: offered.isListed(server),
    waiting: waiting.sort((a, b) => (pinKey(a) < pinKey(b) ? -1 : 1)),
    findings: distinct(findings),
    problem: pins.problem,
  };
}

/** The same in numbers. */
export function driftSummary(parts: DriftParts, server: string): DriftSummary {
  const { pins, guards, offered } = parts;
  const guard = guards.of(server);
  let [waiting, withheld] = [0, 0];
  for (const one of differing(parts, server)) {
    waiting++;
    if (!isPin(one) && offeredFor(one.list, one, guard) !== one.bytes) withheld++;
  }
  const { policy } = guard;
  return { policy, waiting, withheld, findings: offered.findings(server).length, problem: pins.problem };
}

/** What is offered and not approved; the pins of what is approved or blocked, and not offered. */
function* differing({ guards, offered }: DriftParts, server: string): Generator<Definition | Pin, void, undefined> {
  const { policy, pins } = guards.of(server);
  if (policy === 'off') return;
  const names = new Set<string>();
  for (const one of offered.definitions(server)) {
    names.add(pinKey(one));
    if (standingOf(pins, one, one.digest) !== 'approved') yield one;
  }
  for (const [key, pin] of pins.pins) {
    if (names.has(key)) continue;
    if (pin.blocked !== null || (offered.isGone(server, pin) && pin.approved.length > 0)) yield pin;
  }
}

function isPin(one: Definition | Pin): one is Pin {
  return 'approved' in one;
}

function removed({ list, key, approved, blocked }: Pin): WaitingDefinition {
  return {
    list,
    key,
    change: blocked === null ? 'removed' : 'blocked',
    digest: null,
    before: approved.at(-1)?.digest ?? null,
    severity: 'breaking',
    reasons: ['the server does not offer it any more'],
    offered: 'nothing',
    fields: [],
  };
}

function describe(one: Definition, guard: ReturnType<Guards['of']>): WaitingDefinition {
  const { list, key, digest, bytes } = one;
  const standing = standingOf(guard.pins, one, digest);
  const old = guard.pins.pins.get(pinKey(one))?.approved.at(-1) ?? null;
  const shown = offeredFor(list, one, guard);
  const judged =
    old?.definition == null
      ? ({
          severity: 'behaviour',
          reasons: [old === null ? 'it is new' : 'the approved definition was not kept'],
        } as const)
      : judgeChange(list, old.definition, bytes);
  return {
    list,
    key,
    change: standing === 'blocked' ? 'blocked' : standing === 'new' ? 'added' : 'changed',
    digest,
    before: old?.digest ?? null,
    ...judged,
    offered: shown === null ? 'nothing' : shown === bytes ? 'present' : 'approved',
    fields: old?.digest === digest ? [] : differences(old?.definition ?? null, bytes),
  };
}

function differences(old: Buffer | null, now: Buffer): readonly FieldDifference[] {
  const [before, after] = [old === null ? null : pinned(old).toString(), pinned(now).toString()];
  const tooLarge = now.length > MAX_COMPARED || (old !== null && old.length > MAX_COMPARED);
  const changes =
    before === null || tooLarge ? [{ pointer: '', before, after }] : fieldChanges(before, after).slice(0, MAX_FIELDS);
  return changes.map((change) => ({
    pointer: change.pointer,
    before: cut(change.before),
    after: cut(change.after),
    words: wordsOf(change.before, change.after),
  }));
}

function wordsOf(before: string | null, after: string | null): FieldDifference['words'] {
  if (before === null || after === null || !before.startsWith('"') || !after.startsWith('"')) return null;
  return wordDiff(JSON.parse(before) as string, JSON.parse(after) as string);
}

function cut(text: string | null): string | null {
  return text === null || text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
}

/** The same may be found for several kinds of client. */
function distinct(findings: readonly Finding[]): readonly Finding[] {
  return [...new Map(findings.map((finding) => [JSON.stringify(finding), finding])).values()];
}
