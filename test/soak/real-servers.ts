import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { NetworkNamespace } from '../support/network/namespace.ts';
import { CLIENT_KINDS } from '../support/real-servers/first-lists.ts';
import type { Outcome, Proof, Run } from './proof.ts';

const INSIDE = join(import.meta.dirname, 'real-servers-inside.ts');

/** What the process in the namespace says to the one outside. */
export type FromInside = { readonly say: string } | { readonly plug: boolean } | { readonly outcome: Outcome };

/** Gateway, servers and clients are in a namespace whose only way out is a cable that this process pulls. */
async function run({ short, say }: Run): Promise<Outcome> {
  const unready: string[] = [];
  for (const kind of CLIENT_KINDS) if (!(await kind.prepare())) unready.push(`${kind.name} could not be installed`);
  const network = await NetworkNamespace.create();
  if (typeof network === 'string') return { figures: [], broken: [...unready, network] };
  try {
    const [command, ...args] = [...network.enter, process.execPath, INSIDE, network.proxy.url, short ? 'short' : ''];
    const child = spawn(command!, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    let outcome: Outcome = { figures: [], broken: ['the process in the namespace ended without a word'] };
    child.on('message', async (message: FromInside) => {
      if ('say' in message) say(message.say);
      else if ('outcome' in message) outcome = message.outcome;
      else {
        await network.plug(message.plug);
        child.send('done');
      }
    });
    await once(child, 'exit');
    return { ...outcome, broken: [...unready, ...outcome.broken] };
  } finally {
    await network.dispose();
  }
}

export const REAL_SERVERS: Proof = {
  id: 'real-servers',
  group: 'soak',
  claim:
    'Sixteen servers from npm and PyPI, eight of each era, start once each with empty caches and an empty data folder; Claude Code, Codex, Gemini CLI, opencode, Go SDK and Python SDK as first clients get every tool in their first list; without a network starts and calls crash nothing, and no process is left',
  shortened: 'ten of the sixteen servers',
  run,
};
