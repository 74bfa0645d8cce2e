import { fieldChanges } from '../../catalog/drift/capability-drift.ts';
import { pinned } from '../../catalog/drift/definition-digest.ts';
import { approvalStatusOf, offeredFor } from '../../catalog/drift/guarded-catalog.ts';
import { judgeChange } from '../../catalog/drift/severity.ts';
import { wordDiff } from '../../catalog/drift/word-diff.ts';
import type { Clock } from '../../model/clock.ts';
import {
  type Definition,
  type DefinitionName,
  type DriftRecord,
  type DriftReport,
  type DriftSummary,
  type FieldDifference,
  PINNED_KINDS,
  type Pin,
  type PinnedList,
  type Pins,
  pinKey,
  type WaitingDefinition,
} from '../../model/drift.ts';
import type { ListKind, ServerCatalog } from '../../model/server-catalog.ts';
import { TimeSlicer } from '../../model/time-slicer.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { KnownServers } from '../known-servers.ts';
import { DriftReporter } from './drift-reporter.ts';
import { GuardedPages } from './guarded-pages.ts';
import { Guards } from './guards.ts';
import { type DriftParts, inspectCatalog, scanCatalog } from './inspection.ts';
import { OfferedDefinitions } from './offered-definitions.ts';

interface DriftDeps {
  readonly pins: Pins;
  readonly upstreams: KnownServers;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The offered definitions of these lists of a server changed. */
  readonly redefined: (server: string, lists: readonly ListKind[]) => void;
}

/** A definition that an operator approves, by the digest that was shown; null approves its removal. */
interface Decision extends DefinitionName {
  readonly digest: string | null;
}

/** The server has changed the definition since the review; nothing was approved. */
export class OutdatedDecision extends Error {}

/**
 * Pins definitions, withholds what differs as the policy requires, and reports it (docs/drift.md). The entry of this folder for
 * the rest of the gateway and for the operator.
 */
export class Drift {
  readonly guards: Guards;
  readonly pages: GuardedPages;
  readonly #deps: DriftDeps;
  readonly #parts: DriftParts;
  readonly #inspected = new WeakSet<ServerCatalog>();

  constructor(deps: DriftDeps) {
    const { pins, upstreams, clock, logger, metrics } = deps;
    const now = () => clock.now();
    const help = 'Definitions that differ from what was approved.';
    const changes = metrics.counter('trunkline_definition_changes_total', help, ['server', 'change']);
    this.guards = new Guards(pins, upstreams);
    this.#deps = deps;
    this.#parts = {
      pins,
      now,
      guards: this.guards,
      offered: new OfferedDefinitions(),
      reporter: new DriftReporter({ pins, clock, logger, changes }),
      pace: new TimeSlicer(now),
    };
    this.pages = new GuardedPages(this.#parts);
  }

  /** The catalog as it is offered. One that this process did not list is inspected when it is first viewed. */
  view(catalog: ServerCatalog): ServerCatalog {
    this.#sighted(catalog);
    return this.guards.view(catalog);
  }

  /** Inspects a server that was listed; clients see the catalog only after this resolves. Never rejects. */
  async inspect(catalog: ServerCatalog): Promise<void> {
    const policy = this.guards.policy(catalog.server);
    if (policy === 'off') {
      this.#parts.offered.listed(catalog, []);
      return;
    }
    this.#inspected.add(catalog);
    try {
      await inspectCatalog(this.#parts, catalog, policy);
    } catch (error) {
      this.#deps.logger.error('inspection_failed', { server: catalog.server, error });
    }
  }

  /** Servers or their policies changed. */
  desiredChanged(): void {
    const known = new Set(this.#deps.upstreams.servers().map(({ name }) => name));
    this.#parts.offered.forget(known);
    this.#parts.reporter.forget(known);
    this.guards.invalidate();
    for (const server of known) for (const catalog of this.#parts.offered.catalogs(server)) this.#sighted(catalog);
  }

  /** Pins were changed elsewhere and have been read: notifies the clients whose offered definitions changed. */
  pinsChanged(): void {
    const catalogs = this.#deps.upstreams.servers().flatMap(({ name }) => [...this.#parts.offered.catalogs(name)]);
    const before = catalogs.map((catalog) => this.guards.view(catalog));
    this.guards.invalidate();
    const changed = catalogs.filter((catalog, i) => this.guards.view(catalog) !== before[i]);
    for (const server of new Set(changed.map((catalog) => catalog.server))) this.#deps.redefined(server, PINNED_KINDS);
  }

  report(server: string): Promise<DriftReport> {
    return driftReport(this.#parts, server);
  }

  summary(server: string): DriftSummary {
    return driftSummary(this.#parts, server);
  }

  history(
    server: string,
    options: { readonly limit: number; readonly after?: string },
  ): Promise<readonly DriftRecord[]> {
    return this.#deps.pins.history(server, options);
  }

  /** Approves all of them or none. Rejects with OutdatedDecision if the server offers other definitions now. */
  async approve(server: string, decisions: readonly Decision[], by: string): Promise<void> {
    const approved: Definition[] = [];
    const gone: DefinitionName[] = [];
    const offered = [...this.#parts.offered.definitions(server)];
    for (const { list, key, digest } of decisions) {
      const what = key === '' ? list : key;
      const present = offered.filter((one) => one.list === list && one.key === key);
      const seen = present.find((one) => one.digest === digest);
      if (seen !== undefined) approved.push(seen);
      else if (digest !== null)
        throw new OutdatedDecision(`${server} does not offer this definition of ${what} any more`);
      else if (present.length > 0) throw new OutdatedDecision(`${server} offers ${what} again`);
      else gone.push({ list, key });
    }
    await this.#deps.pins.approve(server, approved, gone, by);
    this.#decided(server, decisions);
  }

  /** Withholds all definitions of these names, and refuses calls to them, until one is approved. */
  async block(server: string, names: readonly DefinitionName[], by: string): Promise<void> {
    await this.#deps.pins.block(server, names, by);
    this.#decided(server, names);
  }

  /** Inspects a catalog that was stored, learnt from another node, or listed while the policy was `off`. */
  #sighted(catalog: ServerCatalog): void {
    if (this.#inspected.has(catalog) || this.guards.policy(catalog.server) === 'off') return;
    this.#inspected.add(catalog);
    // Not in this turn: the caller gets its answer first, and at a start all servers are viewed at once.
    void this.#parts.pace.rest().then(() => this.#lookAt(catalog));
  }

  async #lookAt(catalog: ServerCatalog): Promise<void> {
    const before = this.guards.view(catalog);
    await this.inspect(catalog);
    if (this.guards.view(catalog).digest !== before.digest) this.#deps.redefined(catalog.server, PINNED_KINDS);
  }

  #decided(server: string, names: readonly DefinitionName[]): void {
    this.guards.invalidate();
    this.#deps.redefined(server, [...new Set(names.flatMap(({ list }) => listsOf(list)))]);
  }
}

/** Instructions are part of no list; a client gets new ones with its next handshake. */
function listsOf(list: PinnedList): readonly ListKind[] {
  return list === 'instructions' ? [] : [list];
}

/** Definitions in one report; the summary counts all, and the others follow when these are decided. */
const MAX_WAITING = 500;
const MAX_FIELDS = 100;
/** Characters of one JSON text in a report. */
const MAX_TEXT = 8_192;
/** Larger definitions are compared as one value. */
const MAX_COMPARED = 64 * 1024;

/** All differences from the approved definitions, for the operator who decides. */
async function driftReport(parts: DriftParts, server: string): Promise<DriftReport> {
  const { pins, guards, offered, now } = parts;
  const pace = new TimeSlicer(now);
  const guard = guards.of(server);
  const waiting: WaitingDefinition[] = [];
  for (const one of differing(parts, server)) {
    if (waiting.length === MAX_WAITING) break;
    waiting.push(isPin(one) ? removed(one) : describe(one, guard));
    await pace.step();
  }
  if (guard.policy !== 'off') {
    const others = offered.others(server, null);
    for (const catalog of offered.catalogs(server)) offered.found(catalog, await scanCatalog(catalog, others, pace));
  }
  return {
    server,
    policy: guard.policy,
    trustedAt: guard.pins.trustedAt,
    pinned: guard.pins.pins.size,
    listed: offered.isListed(server),
    waiting: waiting.sort((a, b) => (pinKey(a) < pinKey(b) ? -1 : 1)),
    findings: guard.policy === 'off' ? [] : offered.findings(server),
    problem: pins.problem,
  };
}

/** The number of these differences. */
function driftSummary(parts: DriftParts, server: string): DriftSummary {
  const { pins, guards, offered } = parts;
  const guard = guards.of(server);
  let [waiting, withheld] = [0, 0];
  for (const one of differing(parts, server)) {
    waiting++;
    if (!isPin(one) && offeredFor(one.list, one, guard) !== one.bytes) withheld++;
  }
  const { policy } = guard;
  const findings = policy === 'off' ? 0 : offered.findings(server).length;
  return { policy, waiting, withheld, findings, problem: pins.problem };
}

/** The offered definitions that are not approved, and the pins of approved or blocked names that are not offered. */
function* differing({ guards, offered }: DriftParts, server: string): Generator<Definition | Pin, void, undefined> {
  const { policy, pins } = guards.of(server);
  if (policy === 'off') return;
  const names = new Set<string>();
  for (const one of offered.definitions(server)) {
    names.add(pinKey(one));
    if (approvalStatusOf(pins, one, one.digest) !== 'approved') yield one;
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
  const status = approvalStatusOf(guard.pins, one, digest);
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
    change: status === 'blocked' ? 'blocked' : status === 'new' ? 'added' : 'changed',
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
