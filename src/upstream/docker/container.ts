import type { Duplex } from 'node:stream';
import { revealed } from '../../model/secret.ts';
import type { DockerSpec, ImageSpec } from '../../model/server.ts';
import { Engine, EngineError } from './engine.ts';

/** On every container we start: the server it is of, the data folder it belongs to, and the process that started it. */
const SERVER_LABEL = 'trunkline.server';
const OWNER_LABEL = 'trunkline.owner';
const RUN_LABEL = 'trunkline.run';

/** The status for a removal that is under way already. */
const UNDER_WAY = 409;

export interface AttachedContainer {
  readonly engine: Engine;
  readonly id: string;
  readonly stream: Duplex;
  /** One raw stream instead of frames. */
  readonly tty: boolean;
  /** Resolves with the exit code, or null where the engine does not tell. Never rejects. */
  readonly exited: Promise<number | null>;
}

/** Attaches to a running container of the user's own (S2.8). */
async function attachContainer(engine: Engine, container: string): Promise<AttachedContainer> {
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
  return { engine, id, stream, tty: found.Config.Tty === true, exited: exitOf(engine, id, 'not-running') };
}

/** Runs an image as `docker run -i --rm --init` does, its streams attached before its first byte. Leaves nothing behind. */
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
    const exited = exitOf(engine, id, 'next-exit');
    await engine.call('POST', `/containers/${id}/start`);
    return { engine, id, stream, tty: false, exited };
  } catch (error) {
    stream?.destroy();
    await removeContainer({ engine, id });
    throw error;
  }
}

type ContainerId = Pick<AttachedContainer, 'engine' | 'id'>;

/** SIGTERM, and SIGKILL after so long; resolves when the container has ended, or the engine is gone. */
export async function stopContainer({ engine, id }: ContainerId, terminateMs: number): Promise<void> {
  await engine.call('POST', `/containers/${id}/stop?t=${Math.ceil(terminateMs / 1000)}`, undefined, true).catch(gone);
}

/** Removes what is left of it. Resolves when it is gone, also where the engine is removing it already. */
export async function removeContainer({ engine, id }: ContainerId): Promise<void> {
  try {
    await engine.call('DELETE', `/containers/${id}?force=true&v=true`);
  } catch (error) {
    gone(error);
    if (!(error instanceof EngineError) || error.status !== UNDER_WAY) return;
    await engine.call('POST', `/containers/${id}/wait?condition=removed`).catch(gone);
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
    // The end of our connection is the end of its input, even when we are killed.
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
      // Messages must not be logged by the engine.
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
    if (!(error instanceof EngineError) || error.status !== 404) throw error;
    const words = `the image ${image.name} is not on this machine; run "docker pull ${image.name}"`;
    throw new Error(words, { cause: error });
  }
}

function attach(engine: Engine, id: string): Promise<Duplex> {
  return engine.hijack(`/containers/${encodeURIComponent(id)}/attach?stream=true&stdin=true&stdout=true&stderr=true`);
}

async function exitOf(engine: Engine, id: string, condition: 'next-exit' | 'not-running'): Promise<number | null> {
  try {
    const body = await engine.call('POST', `/containers/${id}/wait?condition=${condition}`, undefined, true);
    const { StatusCode } = (body ?? {}) as { readonly StatusCode?: unknown };
    return typeof StatusCode === 'number' ? StatusCode : null;
  } catch {
    return null;
  }
}

/** It is gone already, on its way, or its engine is: nothing is left to do. */
function gone(error: unknown): void {
  if (error instanceof EngineError) return;
  throw error;
}

interface ContainerHostDeps {
  /** What the containers of this data folder's gateways are known by. */
  readonly owner: string;
  /** This process among those gateways; never the same twice. */
  readonly run: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** So many containers of a gateway that was killed were removed. */
  readonly swept: (count: number) => void;
}

/** Requests to an engine that does not answer fail after this; a container that is slow to stop is waited for. */
const ENGINE_TIMEOUT_MS = 10_000;

/**
 * The engines that containers of this gateway run on. An engine that is used for the first time is swept: what another
 * gateway of the same data folder left there when it was killed is removed. Only one gateway at a time has the folder.
 */
export class ContainerHost {
  readonly #deps: ContainerHostDeps;
  readonly #engines = new Map<string, Promise<Engine>>();

  constructor(deps: ContainerHostDeps) {
    this.#deps = deps;
  }

  /** Runs or attaches to what the definition names. Rejects with Error, in words for people; the next call tries anew. */
  async open(server: string, spec: DockerSpec): Promise<AttachedContainer> {
    const { target } = spec;
    const key = spec.engine ?? '';
    let begun = this.#engines.get(key);
    if (begun === undefined) {
      begun = this.#begin(spec.engine);
      this.#engines.set(key, begun);
      begun.catch(() => this.#engines.delete(key));
    }
    const engine = await begun;
    if ('container' in target) return attachContainer(engine, target.container);
    const { owner, run } = this.#deps;
    return runImage(engine, spec, target.image, {
      [SERVER_LABEL]: server,
      [OWNER_LABEL]: owner,
      [RUN_LABEL]: run,
    });
  }

  /** Removes containers of the same owner that another process started: it was killed before it could do so itself. */
  async #begin(written: string | null): Promise<Engine> {
    const { owner, run, environment, swept } = this.#deps;
    const engine = new Engine(written, environment, ENGINE_TIMEOUT_MS);
    const filters = encodeURIComponent(JSON.stringify({ label: [`${OWNER_LABEL}=${owner}`] }));
    const body = await engine.call('GET', `/containers/json?all=true&filters=${filters}`);
    const found: { readonly Id?: string; readonly Labels?: Record<string, string> }[] = Array.isArray(body) ? body : [];
    const left = found.flatMap(({ Id, Labels }) => (Id !== undefined && Labels?.[RUN_LABEL] !== run ? [Id] : []));
    await Promise.all(left.map((id) => removeContainer({ engine, id })));
    if (left.length > 0) swept(left.length);
    return engine;
  }
}
