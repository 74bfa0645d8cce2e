import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { Random } from '../../model/random.ts';
import { byStart, MAX_RECORDINGS, type RecordingLimits, type RecordingTarget } from '../../model/recordings.ts';
import type { WatchedList } from '../../model/watched-list.ts';
import type { TappedConnection, Wires, WireTap } from '../../model/wire-tap.ts';
import type { Logger } from '../logger.ts';
import { sessionLabel } from '../session-label.ts';
import { Recording, type RecordingHead } from './recording.ts';

/** What other nodes need to record their part of a recording. */
export interface RecordingPart {
  readonly head: RecordingHead;
  /** The recorder's keys of its sessions. */
  readonly sessions: readonly string[];
  /** Why it stopped; null while it is active. */
  readonly stopped: string | null;
}

interface RecorderDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Notified when the list of recordings has changed. */
  readonly events: { changed(list: WatchedList): void };
  /** Folder of the recordings; null: in memory. */
  readonly folder: string | null;
  /** `share` resolves when all other nodes have begun their part, or do not answer. Null for a lone gateway. */
  readonly nodes: { readonly node: string; share(part: RecordingPart): Promise<void> } | null;
}

/**
 * Records what passes on both wires of chosen sessions at this node; in a cluster each node records its part. Inactive until a
 * recording is started; then it checks every message and writes those of the chosen sessions without the secrets that the log
 * knows. It never gets headers.
 */
export class Recorder implements WireTap {
  readonly wires: Wires = { tap: null };
  readonly #deps: RecorderDeps;
  readonly #recordings = new Map<string, Recording>();
  /** Resolves when the recordings of earlier processes are loaded; null before the first use. */
  #loaded: Promise<void> | null = null;
  #active: readonly Recording[] = [];

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
  }

  /** Oldest first. */
  async list(): Promise<readonly Recording[]> {
    const known = await this.#known();
    return [...known.values()].sort((a, b) => byStart(a.head, b.head));
  }

  /** Recordings that have not stopped, oldest first. */
  get active(): readonly Recording[] {
    return this.#active;
  }

  async get(id: string): Promise<Recording | null> {
    return (await this.#known()).get(id) ?? null;
  }

  /**
   * `sessionId`: of the session that `target.session` names. Resolves when the other nodes record too; null at the maximum
   * number of recordings. Rejects if the file cannot be written.
   */
  async start(target: RecordingTarget, limits: RecordingLimits, sessionId: string | null): Promise<Recording | null> {
    const { clock, random } = this.#deps;
    await this.#known();
    const head = { id: random.hex(4), startedAt: new Date(clock.wall()).toISOString(), ...target, ...limits };
    const recording = this.#begin(head, sessionId === null ? [] : [sessionId]);
    if (recording !== null) await this.#share(recording);
    return recording;
  }

  /** Starts, extends or stops this node's part of another node's recording; a returned text says why it cannot. */
  async applyPart({ head, sessions, stopped }: RecordingPart): Promise<string | null> {
    const known = (await this.#known()).get(head.id);
    if (stopped !== null) {
      known?.stop(stopped);
      this.#updateActive();
    } else if (known !== undefined) known.addSessions(sessions);
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
    this.#recordings.delete(recording.head.id);
    this.#updateActive();
  }

  /** Stops the recordings of this session. */
  sessionEnded(sessionId: string): void {
    for (const recording of this.#active)
      if (recording.sessions.has(sessionId) && !hasNoSessionFilter(recording.head))
        this.stop(recording, 'the session ended');
  }

  /** Stops the parts of this node; those of other nodes continue. */
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

  /** Called when all are loaded. Null at the maximum number of recordings. Throws if the file cannot be written. */
  #begin(head: RecordingHead, sessions: readonly string[]): Recording | null {
    const { folder } = this.#deps;
    if (this.#recordings.size >= MAX_RECORDINGS) return null;
    if (folder !== null) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const recording = Recording.begin(head, folder === null ? null : join(folder, `${head.id}.jsonl`));
    recording.addSessions(sessions);
    this.#recordings.set(head.id, recording);
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

  /** The message in one line, redacted as for the log. */
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

  /** All recordings; the first call loads those of earlier processes. */
  async #known(): Promise<ReadonlyMap<string, Recording>> {
    this.#loaded ??= this.#load();
    await this.#loaded;
    return this.#recordings;
  }

  /** Reads one file after the other, so that calls are answered in between. */
  async #load(): Promise<void> {
    for (const name of this.#files()) {
      const recording = await Recording.load(join(this.#deps.folder!, name));
      if (recording !== null) this.#recordings.set(recording.head.id, recording);
    }
  }

  #files(): readonly string[] {
    try {
      return this.#deps.folder === null ? [] : readdirSync(this.#deps.folder).filter((name) => name.endsWith('.jsonl'));
    } catch {
      return [];
    }
  }
}

/** Identifies the session; a stateless client, which has none, by its principal, handle and info. */
function keyOf({ sessionId, principal, info, handle }: ClientProfile): string {
  return sessionId ?? `${principal.id} ${handle ?? ''} ${info ?? ''}`;
}

function hasNoSessionFilter({ session, client, principal }: Omit<RecordingTarget, 'server'>): boolean {
  return session === null && client === null && principal === null;
}

/** Whether the message is the first of the next session that the recording waits for. */
function isNext(
  { head, sessions }: Recording,
  client: ClientProfile,
  from: string,
  message: readonly Buffer[],
): boolean {
  if (head.session !== null || sessions.size > 0 || from !== 'client') return false;
  if (head.principal !== null && head.principal !== client.principal.id) return false;
  if (head.client !== null && head.client !== nameIn(client.info)) return false;
  // Other messages belong to sessions that existed before, except for clients without sessions.
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
