import type { Duplex } from 'node:stream';
import { revealed } from '../../model/secret.ts';
import type { DockerSpec, ImageSpec } from '../../model/server.ts';
import { messageOf } from '../../model/thrown.ts';
import { Engine, EngineError } from './engine.ts';

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
  return { engine, id, stream, tty: found.Config.Tty === true, exited: exitOf(engine, id, 'not-running', left) };
}

/** Runs an image as `docker run -i --rm --init` does, attached before its first output. After a failure it removes the container. */
async function runImage(
  engine: Engine,
  spec: DockerSpec,
  image: ImageSpec,
  labels: Readonly<Record<string, string>>,
): Promise<AttachedContainer> {
  const id = await create(engine, spec, image, labels);
  let stream: Duplex | null = null;
  try {
    stream = await attach(engine, id);
    const exited = exitOf(engine, id, 'next-exit', true);
    await engine.call('POST', `/containers/${id}/start`);
    return { engine, id, stream, tty: false, exited };
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
  const path = `/containers/${id}/stop?t=${Math.ceil(terminateMs / 1000)}`;
  await engine.call('POST', path, undefined, true).catch(() => {});
}

/** Removes the container, or waits for a removal that is in progress. Rejects with EngineError. */
export async function removeContainer({ engine, id }: ContainerId): Promise<void> {
  try {
    await engine.call('DELETE', `/containers/${id}?force=true&v=true`);
  } catch (error) {
    if (!hasStatus(error, UNDER_WAY)) return throwUnlessGone(error);
    await engine.call('POST', `/containers/${id}/wait?condition=removed`).catch(throwUnlessGone);
  }
}

async function create(
  engine: Engine,
  spec: DockerSpec,
  image: ImageSpec,
  labels: Readonly<Record<string, string>>,
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
    const answer = await engine.call('POST', '/containers/create', body);
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
  patient: true | AbortSignal,
): Promise<number | null> {
  try {
    const body = await engine.call('POST', `/containers/${id}/wait?condition=${condition}`, undefined, patient);
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

interface ContainerHostDeps {
  /** Label value of the containers of this data folder. */
  readonly owner: string;
  /** Unique id of this gateway process. */
  readonly run: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Called with the number of containers of a killed gateway that were removed. */
  readonly onOrphansRemoved: (count: number) => void;
  /** Called for each of them that the engine failed to remove. */
  readonly onRemovalFailed: (id: string, reason: string) => void;
}

/** Timeout of engine requests, except for those that wait until a container ends. */
const ENGINE_TIMEOUT_MS = 10_000;

/**
 * The container engines of this gateway. On the first use of an engine, containers that a killed gateway of the same data
 * folder left there are removed, if the engine can. Only one gateway at a time uses the folder.
 */
export class ContainerHost {
  readonly #deps: ContainerHostDeps;
  readonly #engines = new Map<string, Promise<Engine>>();

  constructor(deps: ContainerHostDeps) {
    this.#deps = deps;
  }

  /**
   * Runs or attaches to the container of the definition; `left` ends the wait for the exit of an attached one. Rejects with Error,
   * with a readable message; the next call retries.
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
    return runImage(engine, spec, target.image, {
      [SERVER_LABEL]: server,
      [OWNER_LABEL]: owner,
      [RUN_LABEL]: run,
    });
  }

  /** Opens the engine and removes containers of the same owner that another process started: it was killed before it could. */
  async #begin(written: string | null): Promise<Engine> {
    const { owner, run, environment, onOrphansRemoved, onRemovalFailed } = this.#deps;
    const engine = new Engine(written, environment, ENGINE_TIMEOUT_MS);
    const filters = encodeURIComponent(JSON.stringify({ label: [`${OWNER_LABEL}=${owner}`] }));
    const body = await engine.call('GET', `/containers/json?all=true&filters=${filters}`);
    const found: { readonly Id?: string; readonly Labels?: Record<string, string> }[] = Array.isArray(body) ? body : [];
    const orphans = found.flatMap(({ Id, Labels }) => (Id !== undefined && Labels?.[RUN_LABEL] !== run ? [Id] : []));
    let count = 0;
    const remove = async (id: string): Promise<void> => {
      try {
        await removeContainer({ engine, id });
        count++;
      } catch (error) {
        onRemovalFailed(id, messageOf(error));
      }
    };
    await Promise.all(orphans.map(remove));
    if (count > 0) onOrphansRemoved(count);
    return engine;
  }
}
