import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { fewDescriptorsLeft } from '../../http/descriptor-limit.ts';
import { revealed } from '../../model/secret.ts';
import type { StdioSpec } from '../../model/server.ts';
import { resolveCommand, spawnFailure, startFailure } from './command.ts';
import { childEnvironment } from './environment.ts';
import type { ProcessGuard } from './process-guard.ts';
import { type Disguise, disguised } from './run-as.ts';
import { spawnTurn } from './spawn-turn.ts';

/** Both ends of three channels and of the one on which the system says that it could not be started. */
const DESCRIPTORS = 8;

export interface SpawnDeps {
  readonly guard: ProcessGuard;
  /** Our own environment, from which a part is inherited. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Asked last before the process is started: true when it is no longer wanted. */
  readonly unwanted: () => boolean;
}

/** A started process, leader of a group of its own that is registered with the guard. */
export type Child = ChildProcessWithoutNullStreams & { readonly pid: number };

/**
 * Starts a local server: no shell, a process group (and session) of its own, piped streams. Rejects with GatewayError
 * NOT_SENT and leaves nothing behind.
 */
export async function spawnChild(server: string, spec: StdioSpec, deps: SpawnDeps): Promise<Child> {
  const env = childEnvironment(spec, deps.environment);
  const [file] = await Promise.all([resolveCommand(server, spec, env), deps.guard.ready()]);
  const { runAs = null, env: declared } = spec;
  const as: Disguise | null = runAs === null ? null : await disguised(server, runAs, { file, args: spec.args });
  // What is declared wins, here too.
  const whole = as === null ? env : { ...env, ...as.environment, ...revealed(declared) };
  const turn = spawnTurn();
  if (turn !== null) await turn;
  if (deps.unwanted()) throw startFailure(server, 'it was stopped before it had started');
  if (fewDescriptorsLeft(DESCRIPTORS)) throw spawnFailure(server, file, Object.assign(new Error(), { code: 'EMFILE' }));
  let child: ChildProcessWithoutNullStreams;
  try {
    child = deps.guard.start((mark) =>
      spawn(as?.file ?? file, as?.args ?? spec.args, {
        cwd: spec.cwd,
        env: { ...whole, ...mark },
        shell: false,
        detached: true,
        stdio: 'pipe',
        ...as?.identity,
      }),
    );
  } catch (cause) {
    throw spawnFailure(server, file, cause);
  }
  // A pid is there at once or never; without one the reason follows as an event.
  if (child.pid === undefined) {
    const cause = await new Promise((resolve) => child.once('error', resolve));
    throw spawnFailure(server, file, cause);
  }
  child.on('error', () => {});
  return child as Child;
}
