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
import { Recording } from './recording.ts';

interface RecorderDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Hears that the list of recordings is another one. */
  readonly events: { changed(list: WatchedList): void };
  /** Where recordings are kept; null: in memory. */
  readonly folder: string | null;
}

/**
 * Keeps what passes on both wires of chosen sessions, of this node. Off until a recording is started: then every message
 * is looked at, and those of the chosen are written without the secrets that the log knows. Headers never get here.
 */
export class Recorder implements WireTap {
  readonly wires: Wires = { tap: null };
  readonly #deps: RecorderDeps;
  #recordings: Map<string, Recording> | null = null;
  #going: readonly Recording[] = [];

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
  }

  /** Oldest first. */
  list(): readonly Recording[] {
    return [...this.#known().values()];
  }

  get(id: string): Recording | null {
    return this.#known().get(id) ?? null;
  }

  /** `sessionId`: of the session that `target.session` names. null: there are as many as there may be. Throws where the file cannot be written. */
  start(target: RecordingTarget, limits: RecordingLimits, sessionId: string | null): Recording | null {
    const { clock, random, folder } = this.#deps;
    if (this.#known().size >= MAX_RECORDINGS) return null;
    const id = random.hex(4);
    if (folder !== null) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const head = { id, startedAt: new Date(clock.wall()).toISOString(), ...target, ...limits };
    const recording = Recording.begin(head, folder === null ? null : join(folder, `${id}.jsonl`));
    if (sessionId !== null) recording.sessions.set(sessionId, sessionLabel(sessionId));
    this.#known().set(id, recording);
    this.#going = [...this.#going, recording];
    this.#settle();
    return recording;
  }

  stop(recording: Recording, reason: string): void {
    recording.stop(reason);
    this.#settle();
  }

  delete(recording: Recording): void {
    recording.delete();
    this.#known().delete(recording.head.id);
    this.#settle();
  }

  /** Stops those that were of this session. */
  sessionEnded(sessionId: string): void {
    for (const recording of this.#going)
      if (recording.sessions.has(sessionId)) this.stop(recording, 'the session ended');
  }

  close(): void {
    for (const recording of this.#going) this.stop(recording, 'the gateway ended');
  }

  client(
    client: ClientProfile,
    endpoint: Endpoint,
    from: 'client' | 'gateway',
    message: readonly Buffer[],
    exchange: string | null,
  ): void {
    let json: string | null = null;
    for (const recording of this.#going) {
      const key = keyOf(client);
      const isIn = recording.sessions.has(key) || this.#begins(recording, client, endpoint, from, message);
      if (!isIn) continue;
      json ??= this.#text(message);
      this.#introduce(recording, key, client, endpoint.path);
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
    for (const recording of this.#going) {
      const { server: wanted } = recording.head;
      if (wanted !== null && wanted !== server) continue;
      const whole = wanted !== null && isAnySession(recording.head);
      if (!whole && (key === null || !recording.sessions.has(key))) continue;
      json ??= this.#text(message);
      if (exchange !== null) this.#introduce(recording, key!, exchange.client, null);
      const session = key === null ? null : sessionLabel(key);
      this.#add(recording, { wire: 'server', from, session, server, connection, exchange: exchange?.id ?? null }, json);
    }
  }

  #begins(
    { head, sessions }: Recording,
    client: ClientProfile,
    endpoint: Endpoint,
    from: string,
    message: readonly Buffer[],
  ): boolean {
    if (isAnySession(head)) return endpoint.kind === 'server' && endpoint.server === head.server;
    if (head.session !== null || sessions.size > 0 || from !== 'client') return false;
    if (head.principal !== null && head.principal !== client.principal.id) return false;
    if (head.client !== null && head.client !== nameIn(client.info)) return false;
    // Other messages are of sessions that were there before, except where there is no session to begin.
    if (client.sessionId === null) return true;
    return (JSON.parse(Buffer.concat(message).toString()) as { method?: unknown }).method === 'initialize';
  }

  #introduce(recording: Recording, key: string, client: ClientProfile, endpoint: string | null): void {
    const label = sessionLabel(key);
    if (recording.introduced.has(label)) return;
    recording.introduced.add(label);
    recording.sessions.set(key, label);
    const { principal, revision, capabilities, info } = client;
    const about = `{"session":"${label}","principal":${JSON.stringify(principal.id)},"endpoint":${JSON.stringify(endpoint)},"revision":"${revision}","capabilities":${capabilities},"client":${info}}`;
    recording.note(this.#text([Buffer.from(about)]));
  }

  #add(recording: Recording, members: Omit<Parameters<Recording['add']>[0], 'time'>, json: string): void {
    recording.add({ time: new Date(this.#deps.clock.wall()).toISOString(), ...members }, json);
    if (!recording.going) this.#settle();
  }

  /** In one line, and with nothing in it that the log would mask. */
  #text(message: readonly Buffer[]): string {
    return this.#deps.logger.redactJson(
      Buffer.concat(message)
        .toString()
        .replaceAll(/[\r\n]/g, ' '),
    );
  }

  #settle(): void {
    this.#going = this.#going.filter(({ going }) => going);
    this.wires.tap = this.#going.length === 0 ? null : this;
    this.#deps.events.changed('recordings');
  }

  /** Those of earlier processes too, from the first moment that one is asked for. */
  #known(): Map<string, Recording> {
    if (this.#recordings !== null) return this.#recordings;
    this.#recordings = new Map();
    for (const name of this.#files()) {
      const recording = Recording.left(join(this.#deps.folder!, name));
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

function isAnySession({ session, client, principal }: Omit<RecordingTarget, 'server'>): boolean {
  return session === null && client === null && principal === null;
}

function nameIn(info: string | null): string | null {
  try {
    return (JSON.parse(info ?? 'null') as { name?: string } | null)?.name ?? null;
  } catch {
    return null;
  }
}
