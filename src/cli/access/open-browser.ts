import { spawn } from 'node:child_process';
import type { Terminal } from '../command-input.ts';

const OPENERS: Readonly<Record<string, readonly string[]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Opens the address in a browser, without a shell: it may come from a server. False where there is no browser to open. */
export function openBrowser(url: string, env: Terminal['env']): boolean {
  if (!/^https?:\/\//.test(url)) return false;
  const named = env['BROWSER'];
  const remote = env['SSH_CONNECTION'] !== undefined;
  const display = env['DISPLAY'] ?? env['WAYLAND_DISPLAY'];
  if (named === undefined && (remote || (process.platform === 'linux' && display === undefined))) return false;
  const [command = '', ...words] = named === undefined ? (OPENERS[process.platform] ?? ['xdg-open']) : [named];
  const child = spawn(command, [...words, url], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
  return true;
}
