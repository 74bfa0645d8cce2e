import { family } from '../load/process-usage.ts';
import { SERVER_SCRIPTS } from '../sizes.ts';
import { Child } from './child.ts';
import type { Target } from './target.ts';

/**
 * Any other gateway: `name|command|url`, where the command is split at blanks and may hold `{server}` (the measured
 * server's URL) or `{stdio}` (its command line). It is measured only with the server that its command contains.
 */
export function peer(text: string): Target {
  const [name, command, url] = text.split('|');
  if (!name || !command || !url) throw new Error(`a peer is name|command|url, not ${text}`);
  const wanted = command.includes('{stdio}') ? 'stdio' : 'stateful';
  return {
    name,
    maxSessions: 1,
    canServe: (behind) => behind === wanted,
    async start(scene) {
      const filled = command.replace('{server}', scene.statefulUrl).replace('{stdio}', scene.stdioCommand.join(' '));
      const child = new Child(filled.split(' '));
      await child.listening(Number(new URL(url).port));
      return {
        url,
        toolPrefix: '',
        pids: () => family(child.pid, SERVER_SCRIPTS),
        stop: () => child.stop(),
      };
    },
  };
}
