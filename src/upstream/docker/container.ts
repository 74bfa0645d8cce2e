import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { revealed } from '../../model/secret.ts';
import type { DockerSpec, ImageSpec } from '../../model/server.ts';
import { messageOf } from '../../model/thrown.ts';
import { Engine, EngineError, type EngineLimits } from './engine.ts';

/** Labels of every container that the gateway starts: its server, its data folder, and the gateway process that started it. */
const SERVER_LABEL = 'trunkline.server';
const OWNER_LABEL = 'trunkline.owner';
const RUN_LABEL = 'trunkline.run';

/** The engine's statuses for a container that is not there, and for a removal that is already in progress. */
const NOT_THERE = 404;
const UNDER_WAY = 409;

export interface AttachedContainer {
  readonly engine: Engine;
  readonly id: string;
  /** The name that the gateway gave it; null for one of the user. */
  readonly name: string | null;
  readonly stream: Duplex;
  /** The stream is raw output instead of frames. */
  readonly tty: boolean;
  /** Resolves with the exit code, or null if the engine does not report it. Never rejects. */
  readonly exited: Promise<number | null>;
}

/** Attaches to a running container that the user manages (S2.8). */
async function attachContainer(engine: Engine, container: string, left: AbortSignal): Promise<AttachedContainer> {
  const path = `/containers/${encodeURIComponent(container)}`;
  const found = (await engine.call('GET', `${path}/json`)) as {
    readonly Id?: string;
    readonly State?: { readonly Running?: boolean; readonly Status?: string };
    readonly Config?: { readonly OpenStdin?: boolean; readonly Tty?: boolean };
  } | null;
  const state = found?.State;
  if (state?.Running !== true) {
    throw new Error(`the container ${container} is not running (${state?.Status ?? 'unknown'}); start it`);
  }
  if (found?.Config?.OpenStdin !== true) {
    throw new Error(`the container ${container} takes no input; start it with "docker run -i"`);
  }
  const id = found.Id ?? container;
  const stream = await attach(engine, id);
  const exited = exitOf(engine, id, 'not-running', left);
  return { engine, id, name: null, stream, tty: found.Config.Tty === true, exited };
}

/** Runs an image as `docker run -i --rm --init` does, attached before its first output. After a failure it removes the container. */
async function runImage(
  engine: Engine,
  name: string,
  spec: DockerSpec,
  image: ImageSpec,
  labels: Readonly<Record<string, string>>,
  left: AbortSignal,
): Promise<AttachedContainer> {
  const limits = { timeoutMs: START_MS, until: left };
  const id = await create(engine, name, spec, image, labels, limits);
  let stream: Duplex | null = null;
  try {
    stream = await attach(engine, id);
    const exited = exitOf(engine, id, 'next-exit', left);
    await engine.call('POST', `/containers/${id}/start`, undefined, limits);
    return { engine, id, name, stream, tty: false, exited };
  } catch (error) {
    stream?.destroy();
    await removeContainer({ engine, id }).catch((cause) => {
      const left = `its container was not removed (${messageOf(cause)}); run "docker rm -f ${id.slice(0, 12)}"`;
      throw new Error(`${messageOf(error)}; ${left}`, { cause: error });
    });
    throw error;
  }
}

type ContainerId = Pick<AttachedContainer, 'engine' | 'id'>;

/** SIGTERM, SIGKILL after `terminateMs`. Resolves also if the engine fails; the removal that follows reports it. */
export async function stopContainer({ engine, id }: ContainerId, terminateMs: number): Promise<void> {
  const seconds = Math.ceil(terminateMs / 1000);
  const timeoutMs = seconds * 1000 + engine.timeoutMs;
  await engine.call('POST', `/containers/${id}/stop?t=${seconds}`, undefined, { timeoutMs }).catch(() => {});
}

/** Removes the container, or waits for a removal that is in progress. Rejects with EngineError. */
async function removeContainer({ engine, id }: ContainerId): Promise<void> {
  try {
    await engine.call('DELETE', `/containers/${id}?force=true&v=true`);
  } catch (error) {
    if (!hasStatus(error, UNDER_WAY)) return throwUnlessGone(error);
    await engine.call('POST', `/containers/${id}/wait?condition=removed`).catch(throwUnlessGone);
  }
}

async function create(
  engine: Engine,
  name: string,
  spec: DockerSpec,
  image: ImageSpec,
  labels: Readonly<Record<string, string>>,
  limits: EngineLimits,
): Promise<string> {
  const { memoryBytes, cpus, pids } = image.limits;
  const body = {
    Image: image.name,
    ...(image.command.length === 0 ? {} : { Cmd: image.command }),
    ...(image.entrypoint === null ? {} : { Entrypoint: image.entrypoint }),
    ...(image.cwd === null ? {} : { WorkingDir: image.cwd }),
    ...(image.user === null ? {} : { User: image.user }),
    Env: Object.entries(revealed(spec.env)).map(([name, value]) => `${name}=${value}`),
    OpenStdin: true,
    // When the gateway's connection ends, the container's input ends, even if the gateway is killed.
    StdinOnce: true,
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: false,
    Labels: { ...image.labels, ...labels },
    HostConfig: {
      AutoRemove: true,
      Init: true,
      Binds: image.volumes,
      ReadonlyRootfs: image.readOnly,
      // The engine must not log messages.
      LogConfig: { Type: 'none' },
      ...(image.network === null ? {} : { NetworkMode: image.network }),
      ...(memoryBytes === null ? {} : { Memory: memoryBytes }),
      ...(cpus === null ? {} : { NanoCpus: Math.round(cpus * 1e9) }),
      ...(pids === null ? {} : { PidsLimit: pids }),
    },
  };
  try {
    const answer = await engine.call('POST', `/containers/create?name=${name}`, body, limits);
    const { Id } = (answer ?? {}) as { readonly Id?: unknown };
    if (typeof Id !== 'string' || !/^[0-9a-f]+$/i.test(Id)) throw new Error('the engine made no container');
    return Id;
  } catch (error) {
    if (!hasStatus(error, NOT_THERE)) throw error;
    const words = `the image ${image.name} is not on this machine; run "docker pull ${image.name}"`;
    throw new Error(words, { cause: error });
  }
}

function attach(engine: Engine, id: string): Promise<Duplex> {
  return engine.hijack(`/containers/${encodeURIComponent(id)}/attach?stream=true&stdin=true&stdout=true&stderr=true`);
}

async function exitOf(
  engine: Engine,
  id: string,
  condition: 'next-exit' | 'not-running',
  until: AbortSignal,
): Promise<number | null> {
  try {
    const path = `/containers/${id}/wait?condition=${condition}`;
    const body = await engine.call('POST', path, undefined, { timeoutMs: 0, until });
    const { StatusCode } = (body ?? {}) as { readonly StatusCode?: unknown };
    return typeof StatusCode === 'number' ? StatusCode : null;
  } catch {
    return null;
  }
}

function hasStatus(error: unknown, status: number): boolean {
  return error instanceof EngineError && error.status === status;
}

function throwUnlessGone(error: unknown): void {
  if (!hasStatus(error, NOT_THERE)) throw error;
}

/** A container in the engine's list; names begin with a slash. */
interface ListedContainer {
  readonly Id?: string;
  readonly Names?: readonly string[];
  readonly Labels?: Readonly<Record<string, string>>;
}

interface ContainerHostDeps {
  /** Label value of the containers of this data folder. */
  readonly owner: string;
  /** Unique id of this gateway process. */
  readonly run: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Called with the number of containers that a killed gateway, or a failed removal, left and that were removed. */
  readonly onOrphansRemoved: (count: number) => void;
  /** Called for each of them that the engine failed to remove. */
  readonly onRemovalFailed: (id: string, reason: string) => void;
  /** Timeout of most requests to an engine. */
  readonly timeoutMs?: number;
}

const ENGINE_TIMEOUT_MS = 10_000;
/** For requests that start a container: an engine may copy its image. The limit of the server's start ends them sooner. */
const START_MS = 60_000;

/**
 * The container engines of this gateway. On the first use of an engine, containers that a killed gateway of the same data
 * folder left there are removed, if the engine can. Only one gateway at a time uses the folder. With each start of a
 * container, those that this gateway made and does not use are removed: the engine did not answer when it made them, or failed
 * to remove them.
 */
export class ContainerHost {
  readonly #deps: ContainerHostDeps;
  readonly #engines = new Map<string, Promise<Engine>>();
  /** Names of the containers that it uses or makes. */
  readonly #used = new Set<string>();
  readonly #sweeping = new Set<Engine>();

  constructor(deps: ContainerHostDeps) {
    this.#deps = deps;
  }

  /**
   * Runs or attaches to the container of the definition; `left` ends the start, and later the wait for the exit. Rejects with
   * Error, with a readable message; the next call retries.
   */
  async open(server: string, spec: DockerSpec, left: AbortSignal): Promise<AttachedContainer> {
    const { target } = spec;
    const key = spec.engine ?? '';
    let begun = this.#engines.get(key);
    if (begun === undefined) {
      begun = this.#begin(spec.engine);
      this.#engines.set(key, begun);
      begun.catch(() => this.#engines.delete(key));
    }
    const engine = await begun;
    if ('container' in target) return attachContainer(engine, target.container, left);
    const { owner, run } = this.#deps;
    const name = `trunkline-${randomUUID()}`;
    const labels = { [SERVER_LABEL]: server, [OWNER_LABEL]: owner, [RUN_LABEL]: run };
    this.#used.add(name);
    this.#sweepUnused(engine);
    try {
      return await runImage(engine, name, spec, target.image, labels, left);
    } catch (error) {
      this.#used.delete(name);
      throw error;
    }
  }

  /** Removes a container that `open` ran. Rejects with EngineError; a later `open` then tries again. */
  async remove(container: AttachedContainer): Promise<void> {
    await removeContainer(container).finally(() => this.#used.delete(container.name!));
  }

  /** Opens the engine and removes containers of the same owner that another process started: it was killed before it could. */
  async #begin(written: string | null): Promise<Engine> {
    const { run, environment, timeoutMs = ENGINE_TIMEOUT_MS } = this.#deps;
    const engine = new Engine(written, environment, timeoutMs);
    await this.#sweep(engine, (of) => of !== run);
    return engine;
  }

  /** Does not delay the start: the engine may be unable to remove one of them. */
  #sweepUnused(engine: Engine): void {
    if (this.#sweeping.has(engine)) return;
    this.#sweeping.add(engine);
    const { run } = this.#deps;
    this.#sweep(engine, (of, names) => of === run && !names.some((name) => this.#used.has(name)))
      .catch(() => {})
      .finally(() => this.#sweeping.delete(engine));
  }

  /** Removes the containers of this owner that are left, by the gateway process that started them and their names. */
  async #sweep(engine: Engine, isLeft: (run: string | undefined, names: readonly string[]) => boolean): Promise<void> {
    const { owner, onOrphansRemoved, onRemovalFailed } = this.#deps;
    const filters = encodeURIComponent(JSON.stringify({ label: [`${OWNER_LABEL}=${owner}`] }));
    const body = await engine.call('GET', `/containers/json?all=true&filters=${filters}`);
    const found: readonly ListedContainer[] = Array.isArray(body) ? body : [];
    let count = 0;
    const remove = async ({ Id: id, Labels, Names = [] }: ListedContainer): Promise<void> => {
      const names = Names.map((name) => name.replace(/^\//, ''));
      if (id === undefined || !isLeft(Labels?.[RUN_LABEL], names)) return;
      try {
        await removeContainer({ engine, id });
        count++;
      } catch (error) {
        onRemovalFailed(id, messageOf(error));
      }
    };
    await Promise.all(found.map(remove));
    if (count > 0) onOrphansRemoved(count);
  }
}
