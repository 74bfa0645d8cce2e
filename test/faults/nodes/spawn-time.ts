import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ClusterWorld } from '../../chaos/cluster-world.ts';

/** How long it takes here, now, until a process of a ledger server, in a group of its own as those of a gateway, has answered. */
export async function spawnTime(world: ClusterWorld): Promise<number> {
  const { command, args } = world.pipe('unused') as { command: string; args: string[] };
  const begunAt = performance.now();
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'], detached: true });
  child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
  await once(child.stdout, 'data');
  const tookMs = performance.now() - begunAt;
  child.kill('SIGKILL');
  await once(child, 'exit');
  return tookMs;
}
