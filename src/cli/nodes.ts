import { setTimeout as pause } from 'node:timers/promises';
import type { DefinitionConflict, NodeEntry, NodesView } from '../app/plane.ts';
import { counted } from '../model/counted.ts';
import type { ControlClient } from './access/control-client.ts';
import { runningClient } from './access/find-running.ts';
import { type CommandInput, print } from './command-input.ts';
import { CommandError, EXIT, type ExitCode, usage } from './exit-code.ts';

const POLL_MS = 100;
/** A drain takes at most half a minute; this adds a margin. */
const GONE_MS = 60_000;

/** `trunkline nodes`: the nodes of the cluster, their states, and conflicting definitions. */
export async function nodes(input: CommandInput): Promise<ExitCode> {
  const found = await read(await runningClient(input));
  print(input, found, () => nodesText(found));
  return EXIT.ok;
}

function nodesText({ nodes: all, conflicts }: NodesView): string {
  if (all.length === 0) return 'this gateway is no node of a cluster\n';
  const width = Math.max(...all.map(({ node }) => node.length));
  const lines = [...all.map((node) => nodeLine(node, width)), ...conflicts.map(conflictLine)];
  return lines.map((line) => `${line}\n`).join('');
}

/** `trunkline drain [node]`: drains this node or the named one, and waits until it has left. */
export async function drain(input: CommandInput & { readonly node: string | undefined }): Promise<ExitCode> {
  const client = await runningClient(input);
  const before = await read(client);
  const target = theOne(before.nodes, input.node);
  await client.post(`/api/v1/nodes/${encodeURIComponent(target.peer)}/drain`, '{}');
  const end = performance.now() + GONE_MS;
  while (await isThere(client, target)) {
    if (performance.now() > end) throw new CommandError(EXIT.unreachable, `node ${target.node} is still there`);
    await pause(POLL_MS);
  }
  print(input, { drained: target.node }, () => `node ${target.node} has left\n`);
  return EXIT.ok;
}

/** This node, or the one with this name or peer id; of several nodes with one name, the user has to give the peer id. */
function theOne(all: readonly NodeEntry[], name: string | undefined): NodeEntry {
  const matches = all.filter(({ node, peer, here }) => (name === undefined ? here : node === name || peer === name));
  const [first] = matches;
  if (first === undefined) {
    const what =
      name === undefined
        ? 'this gateway is no node of a cluster; trunkline stop ends it'
        : `this node reaches no node ${name}; trunkline nodes lists those it reaches`;
    throw usage(what);
  }
  if (matches.length === 1) return first;
  const peers = matches.map(({ peer }) => peer).join(' or ');
  const message = `${matches.length} nodes are called ${name}: say ${peers}, or give them other names`;
  throw usage(message);
}

async function read(client: ControlClient): Promise<NodesView> {
  return JSON.parse(await client.get('/api/v1/nodes')) as NodesView;
}

/** A node that drained itself stops answering once it has exited. */
async function isThere(client: ControlClient, { peer, here }: NodeEntry): Promise<boolean> {
  try {
    return (await read(client)).nodes.some((node) => node.peer === peer);
  } catch (error) {
    if (here && error instanceof CommandError && error.exitCode === EXIT.unreachable) return false;
    throw error;
  }
}

function nodeLine({ node, here, state, version, calls, servers }: NodeEntry, width: number): string {
  const mark = here ? '*' : ' ';
  const busy = calls === 0 ? '' : `, ${counted(calls, 'call')} for others`;
  return `${mark} ${node.padEnd(width)}  ${state.padEnd(8)}  ${version}  ${counted(servers.length, 'server')}${busy}`;
}

function conflictLine({ server, sides }: DefinitionConflict): string {
  const [used, ...others] = sides.map((side) => side.join(', '));
  return `! ${server} is defined differently: calls go to that of ${used}, not to that of ${others.join('; ')}`;
}
