import { approvalStatusOf } from '../../catalog/drift/guarded-catalog.ts';
import { printable } from '../../catalog/drift/hidden-characters.ts';
import { judgeChange } from '../../catalog/drift/severity.ts';
import type { Clock } from '../../model/clock.ts';
import {
  type Definition,
  type DefinitionName,
  type DriftEvent,
  type DriftEventKind,
  type DriftPolicy,
  type Finding,
  type Pin,
  type Pins,
  pinKey,
} from '../../model/drift.ts';
import type { TimeSlicer } from '../../model/time-slicer.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metric, Series } from '../../telemetry/metrics.ts';

/** Changes logged and stored per server and hour: a server that changes at every listing must not fill disk and log. */
const MAX_EVENTS = 200;
const HOUR_MS = 3_600_000;
/** Log lines for one inspection of a server. */
const MAX_LINES = 10;
const MAX_KNOWN = 5_000;
const MAX_TEXT = 500;
const HISTORY = 500;

const LINES = {
  added: 'definition_added',
  changed: 'definition_changed',
  removed: 'definition_removed',
  trusted: 'definitions_trusted',
  approved: 'definition_approved',
  blocked: 'definition_blocked',
} as const satisfies Record<DriftEventKind, string>;

interface DriftReporterDeps {
  readonly pins: Pins;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly changes: Metric<Series>;
}

interface ServerReports {
  /** Changes that were reported already, also by earlier processes. */
  readonly reported: Set<string>;
  /** Names whose removal was reported. */
  readonly gone: Set<string>;
  readonly suspected: Set<string>;
  windowEnd: number;
  left: number;
}

/** Reports each change once: in the log, in the metrics and in the history. */
export class DriftReporter {
  readonly #deps: DriftReporterDeps;
  readonly #servers = new Map<string, Promise<ServerReports>>();

  constructor(deps: DriftReporterDeps) {
    this.#deps = deps;
  }

  /** Reports changes in `offered`, and pins without a definition there for which `isGone` returns true. */
  async reportChanges(
    server: string,
    policy: DriftPolicy,
    offered: readonly Definition[],
    isGone: (pin: Pin) => boolean,
    pace: TimeSlicer,
  ): Promise<void> {
    const of = await this.#of(server);
    const pins = this.#deps.pins.of(server);
    const events: DriftEvent[] = [];
    const at = this.#deps.clock.wall();
    const names = new Set<string>();
    for (const one of offered) {
      names.add(pinKey(one));
      of.gone.delete(pinKey(one));
      const status = approvalStatusOf(pins, one, one.digest);
      if (status !== 'new' && status !== 'changed') continue;
      if (!markReported(of, `${pinKey(one)} ${one.digest}`)) continue;
      const old = pins.pins.get(pinKey(one))?.approved.at(-1) ?? null;
      const judged = old?.definition == null ? null : judgeChange(one.list, old.definition, one.bytes);
      events.push({
        at,
        kind: status === 'new' ? 'added' : 'changed',
        name: short(one),
        digest: one.digest,
        before: old?.digest ?? null,
        severity: judged?.severity ?? 'behaviour',
        by: null,
        text: printable(judged?.reasons.join('; ') ?? '', 0, MAX_TEXT),
      });
      await pace.step();
    }
    for (const [key, pin] of pins.pins) {
      if (names.has(key) || pin.approved.length === 0 || of.gone.has(key) || !isGone(pin)) continue;
      of.gone.add(key);
      const before = pin.approved.at(-1)!.digest;
      const what = { at, name: short(pin), digest: null, before, severity: 'breaking', by: null, text: '' } as const;
      events.push({ ...what, kind: 'removed' });
    }
    await this.#publish(server, policy, of, events);
  }

  async reportFindings(server: string, findings: readonly Finding[]): Promise<void> {
    const of = await this.#of(server);
    let lines = 0;
    for (const { list, key, kind, grave, pointer, excerpt } of findings) {
      const id = `${list} ${key} ${kind} ${pointer} ${excerpt}`;
      if (of.suspected.has(id) || of.suspected.size >= MAX_KNOWN) continue;
      of.suspected.add(id);
      if (++lines > MAX_LINES) continue;
      const fields = { server, list, name: printable(key), kind, pointer, excerpt };
      if (grave) this.#deps.logger.warn('definition_suspicious', fields);
      else this.#deps.logger.info('definition_suspicious', fields);
    }
  }

  forget(known: ReadonlySet<string>): void {
    for (const name of this.#servers.keys()) if (!known.has(name)) this.#servers.delete(name);
  }

  async #publish(server: string, policy: DriftPolicy, of: ServerReports, events: readonly DriftEvent[]): Promise<void> {
    const { logger, pins, changes, clock } = this.#deps;
    if (events.length === 0) return;
    const now = clock.now();
    if (now >= of.windowEnd) {
      of.windowEnd = now + HOUR_MS;
      of.left = MAX_EVENTS;
    }
    const reported = events.slice(0, of.left);
    of.left -= reported.length;
    for (const { kind, name, severity, text } of reported.slice(0, MAX_LINES)) {
      logger.warn(LINES[kind], {
        server,
        list: name!.list,
        name: printable(name!.key),
        severity,
        policy,
        change: text,
      });
    }
    for (const { kind } of events) changes.of(server, kind).add();
    if (events.length > Math.min(reported.length, MAX_LINES)) {
      logger.warn('definitions_changed', { server, policy, changes: events.length, kept: reported.length });
    }
    await pins.note(server, reported);
  }

  #of(server: string): Promise<ServerReports> {
    let known = this.#servers.get(server);
    if (known === undefined) this.#servers.set(server, (known = this.#remember(server)));
    return known;
  }

  async #remember(server: string): Promise<ServerReports> {
    const of: ServerReports = {
      reported: new Set(),
      gone: new Set(),
      suspected: new Set(),
      windowEnd: 0,
      left: MAX_EVENTS,
    };
    const decided = new Set<string>();
    try {
      for (const { kind, name, digest } of await this.#deps.pins.history(server, { limit: HISTORY })) {
        if (name === null) continue;
        if (kind === 'removed' && !decided.has(pinKey(name))) of.gone.add(pinKey(name));
        decided.add(pinKey(name));
        if (kind === 'added' || kind === 'changed') of.reported.add(`${pinKey(name)} ${digest}`);
      }
    } catch (error) {
      this.#deps.logger.warn('drift_history_unread', { server, error });
    }
    return of;
  }
}

function markReported({ reported }: ServerReports, id: string): boolean {
  if (reported.has(id) || reported.size >= MAX_KNOWN) return false;
  reported.add(id);
  return true;
}

/** The name in a bounded length, for events. */
function short({ list, key }: DefinitionName): DefinitionName {
  return { list, key: key.length > 1_024 ? key.slice(0, 1_024) : key };
}
