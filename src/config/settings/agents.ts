import type { Agent } from '../../model/desired-state.ts';
import { Secret } from '../../model/secret.ts';
import { child, isString } from '../document/node.ts';
import { didYouMean, type Problems } from '../problem/problem.ts';
import { serverNameOf } from '../server/server-names.ts';
import type { Setting } from './settings.ts';

export const MIN_KEY_LENGTH = 16;
const VARIABLE = /^\$\{(?:env:)?([A-Za-z_]\w*)(?::-[^}]*)?\}$/;

/** The agents of the configuration. Duplicate keys are found by comparing them in full; callers are checked by digest. */
export function readAgents(
  setting: Setting | undefined,
  serverNames: ReadonlySet<string>,
  problems: Problems,
): { readonly agents: ReadonlyMap<string, Agent>; readonly keys: readonly string[] } {
  const agents = new Map<string, Agent>();
  const owners = new Map<string, string>();
  if (setting === undefined || setting.member.value.kind !== 'object') return { agents, keys: [] };
  const { source, expander } = setting;
  for (const { key: name, keySpan, value } of setting.member.value.members) {
    if (value.kind !== 'object') continue;
    const path = `agents.${name}`;
    if (!/^[\w.@-]{1,64}$/.test(name)) {
      const message = `${path}: the name of an agent is up to 64 letters, digits, ".", "@", "-", "_"`;
      problems.error('TL1303', source, keySpan, message);
    }
    const servers = readServers(value, path, setting, serverNames, problems);
    const node = child(value, 'key');
    if (!isString(node)) continue;
    const key = expander.expand(node, `${path}.key`);
    if (key === null) continue;
    const owner = owners.get(key);
    if (key.length < MIN_KEY_LENGTH) {
      const message = `${path}.key has ${key.length} characters; it needs at least ${MIN_KEY_LENGTH}`;
      problems.error('TL1501', source, node.span, message);
    } else if (/[^\u0021-\u007e]/.test(key)) {
      problems.error('TL1303', source, node.span, `${path}.key holds blanks or characters that no header can carry`);
    } else if (owner !== undefined) {
      problems.error('TL1502', source, node.span, `${path} has the same key as agents.${owner}`);
    }
    owners.set(key, name);
    const variable = VARIABLE.exec(node.text)?.[1];
    agents.set(name, { name, key: new Secret(key), ...(variable === undefined ? {} : { variable }), servers });
  }
  return { agents, keys: [...owners.keys()] };
}

function readServers(
  agent: Parameters<typeof child>[0],
  path: string,
  { source }: Setting,
  serverNames: ReadonlySet<string>,
  problems: Problems,
): ReadonlySet<string> | null {
  const node = child(agent, 'servers');
  if (node?.kind !== 'array') return null;
  const names = new Set<string>();
  for (const item of node.items) {
    if (!isString(item)) continue;
    const name = serverNames.has(item.text) ? item.text : serverNameOf(item.text);
    if (serverNames.has(name)) names.add(name);
    else if (!problems.isFull('errors')) {
      const known =
        serverNames.size === 0 ? 'configure a server first' : `there are ${[...serverNames].slice(0, 10).join(', ')}`;
      const message = `${path} may use ${JSON.stringify(item.text)}, which is no server here`;
      problems.error('TL1503', source, item.span, message, didYouMean(item.text, serverNames, known));
    }
  }
  return names;
}
