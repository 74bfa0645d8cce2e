import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { Random } from '../../model/random.ts';
import { MAX_RECORDINGS, type RecordingLimits, type RecordingTarget } from '../../model/recordings.ts';
import type { WatchedList } from '../../model/watched-list.ts';
import type { TappedConnection, Wires, WireTap } from '../../model/wire-tap.ts';
import type { Logger } from '../logger.ts';
import { sessionLabel } from '../session-label.ts';
import { Recording, type RecordingHead } from './recording.ts';

/** What the other nodes need to know to keep their part of a recording. */
export interface RecordingPart {
  readonly head: RecordingHead;
  /** What its sessions are known by. */
  readonly sessions: readonly string[];
  /** Why it stopped; null while it is active. */
  readonly stopped: string | null;
}

interface RecorderDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Hears that the list of recordings is another one. */
  readonly events: { changed(list: WatchedList): void };
  /** Where recordings are kept; null: in memory. */
  readonly folder: string | null;
  /** `share` resolves when all other nodes have begun their part, or do not answer. null for a lone gateway. */
  readonly nodes: { readonly node: string; share(part: RecordingPart): Promise<void> } | null;
}

/**
 * Keeps what passes on both wires of chosen sessions at this node; the other nodes of a cluster each keep their part. Off
 * until a recording is started: then every message is looked at, and those of the chosen sessions are written without the
 * secrets that the log knows. Headers never get here.
 */
export class Recorder implements WireTap {
  readonly wires: Wires = { tap: null };
  readonly #deps: RecorderDeps;
  #recordings: Map<string, Recording> | null = null;
  #active: readonly Recording[] = [];

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
  }

  /** Oldest first. */
  list(): readonly Recording[] {
    return [...this.#known().values()];
  }

  /** Those that have not stopped. */
  get active(): readonly Recording[] {
    return this.#active;
  }

  get(id: string): Recording | null {
    return this.#known().get(id) ?? null;
  }

  /**
   * `sessionId`: of the session that `target.session` names. Resolves when the other nodes record too; with null if there are
   * as many recordings as there may be. Rejects where the file cannot be written.
   */
  async start(target: RecordingTarget, limits: RecordingLimits, sessionId: string | null): Promise<Recording | null> {
    const { clock, random } = this.#deps;
    const head = { id: random.hex(4), startedAt: new Date(clock.wall()).toISOString(), ...target, ...limits };
    const recording = this.#begin(head, sessionId === null ? [] : [sessionId]);
    if (recording !== null) await this.#share(recording);
    return recording;
  }

  /** Keeps, continues or stops this node's part of a recording of another node; a text says why it cannot. */
  applyPart({ head, sessions, stopped }: RecordingPart): string | null {
    const known = this.get(head.id);
    if (stopped !== null) {
      known?.stop(stopped);
      this.#updateActive();
    } else if (known !== null) known.addSessions(sessions);
    else if (this.#begin(head, sessions) === null) return `this node has ${MAX_RECORDINGS} recordings`;
    return null;
  }

  stop(recording: Recording, reason: string): void {
    if (!recording.active) return;
    recording.stop(reason);
    this.#updateActive();
    void this.#share(recording);
  }

  delete(recording: Recording): void {
    recording.delete();
    this.#known().delete(recording.head.id);
    this.#updateActive();
  }

  /** Stops those that were of this session alone. */
  sessionEnded(sessionId: string): void {
    for (const recording of this.#active)
      if (recording.sessions.has(sessionId) && !hasNoSessionFilter(recording.head))
        this.stop(recording, 'the session ended');
  }

  /** The parts of other nodes go on. */
  close(): void {
    for (const recording of this.#active) recording.stop('the gateway ended');
    this.#updateActive();
  }

  client(
    client: ClientProfile,
    endpoint: Endpoint,
    from: 'client' | 'gateway',
    message: readonly Buffer[],
    exchange: string | null,
  ): void {
    let json: string | null = null;
    for (const recording of this.#active) {
      const key = keyOf(client);
      const { head } = recording;
      const isIn = hasNoSessionFilter(head)
        ? endpoint.kind === 'server' && endpoint.server === head.server
        : recording.sessions.has(key) || isNext(recording, client, from, message);
      if (!isIn) continue;
      json ??= this.#text(message);
      this.#describe(recording, key, client, endpoint.path);
      this.#add(
        recording,
        { wire: 'client', from, session: sessionLabel(key), endpoint: endpoint.path, exchange },
        json,
      );
    }
  }

  server(
    { server, label: connection, sessionId }: TappedConnection,
    from: 'gateway' | 'server',
    message: readonly Buffer[],
    exchange: Exchange | null,
  ): void {
    const key = exchange === null ? sessionId : keyOf(exchange.client);
    let json: string | null = null;
    for (const recording of this.#active) {
      const { server: wanted } = recording.head;
      if (wanted !== null && wanted !== server) continue;
      const whole = wanted !== null && hasNoSessionFilter(recording.head);
      if (!whole && (key === null || !recording.sessions.has(key))) continue;
      json ??= this.#text(message);
      if (exchange !== null) this.#describe(recording, key!, exchange.client, null);
      const session = key === null ? null : sessionLabel(key);
      this.#add(recording, { wire: 'server', from, session, server, connection, exchange: exchange?.id ?? null }, json);
    }
  }

  /** null: there are as many as there may be. Throws where the file cannot be written. */
  #begin(head: RecordingHead, sessions: readonly string[]): Recording | null {
    const { folder } = this.#deps;
    if (this.#known().size >= MAX_RECORDINGS) return null;
    if (folder !== null) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const recording = Recording.begin(head, folder === null ? null : join(folder, `${head.id}.jsonl`));
    recording.addSessions(sessions);
    this.#known().set(head.id, recording);
    this.#active = [...this.#active, recording];
    this.#updateActive();
    return recording;
  }

  async #share({ head, sessions, reason }: Recording): Promise<void> {
    if (head.node === null) await this.#deps.nodes?.share({ head, sessions: [...sessions.keys()], stopped: reason });
  }

  #describe(recording: Recording, key: string, client: ClientProfile, endpoint: string | null): void {
    const label = sessionLabel(key);
    if (recording.described.has(label)) return;
    recording.described.add(label);
    const isNew = !recording.sessions.has(key);
    recording.addSessions([key]);
    if (isNew && !hasNoSessionFilter(recording.head)) void this.#share(recording);
    const { principal, revision, capabilities, info } = client;
    const about = `{"session":"${label}","principal":${JSON.stringify(principal.id)},"endpoint":${JSON.stringify(endpoint)},"revision":"${revision}","capabilities":${capabilities},"client":${info}}`;
    recording.note(this.#text([Buffer.from(about)]));
  }

  #add(recording: Recording, members: Omit<Parameters<Recording['add']>[0], 'time'>, json: string): void {
    const { clock, nodes } = this.#deps;
    const at = { time: new Date(clock.wall()).toISOString(), ...(nodes === null ? {} : { node: nodes.node }) };
    const full = recording.add({ ...at, ...members }, json);
    if (full !== null) this.stop(recording, full);
    else if (!recording.active) this.#updateActive();
  }

  /** In one line, and with nothing in it that the log would mask. */
  #text(message: readonly Buffer[]): string {
    return this.#deps.logger.redactJson(
      Buffer.concat(message)
        .toString()
        .replaceAll(/[\r\n]/g, ' '),
    );
  }

  #updateActive(): void {
    this.#active = this.#active.filter(({ active }) => active);
    this.wires.tap = this.#active.length === 0 ? null : this;
    this.#deps.events.changed('recordings');
  }

  /** Those of earlier processes too, from the first moment that one is asked for. */
  #known(): Map<string, Recording> {
    if (this.#recordings !== null) return this.#recordings;
    this.#recordings = new Map();
    for (const name of this.#files()) {
      const recording = Recording.load(join(this.#deps.folder!, name));
      if (recording !== null) this.#recordings.set(recording.head.id, recording);
    }
    return this.#recordings;
  }

  #files(): readonly string[] {
    try {
      return this.#deps.folder === null ? [] : readdirSync(this.#deps.folder).filter((name) => name.endsWith('.jsonl'));
    } catch {
      return [];
    }
  }
}

/** A stateless client has no session: it is known by its principal and by what it says of itself. */
function keyOf({ sessionId, principal, info, handle }: ClientProfile): string {
  return sessionId ?? `${principal.id} ${handle ?? ''} ${info ?? ''}`;
}

function hasNoSessionFilter({ session, client, principal }: Omit<RecordingTarget, 'server'>): boolean {
  return session === null && client === null && principal === null;
}

/** The message is the first of the next session that was asked for. */
function isNext(
  { head, sessions }: Recording,
  client: ClientProfile,
  from: string,
  message: readonly Buffer[],
): boolean {
  if (head.session !== null || sessions.size > 0 || from !== 'client') return false;
  if (head.principal !== null && head.principal !== client.principal.id) return false;
  if (head.client !== null && head.client !== nameIn(client.info)) return false;
  // Other messages are of sessions that were there before, except where there is no session to begin.
  if (client.sessionId === null) return true;
  return (JSON.parse(Buffer.concat(message).toString()) as { method?: unknown }).method === 'initialize';
}

function nameIn(info: string | null): string | null {
  try {
    return (JSON.parse(info ?? 'null') as { name?: string } | null)?.name ?? null;
  } catch {
    return null;
  }
}
