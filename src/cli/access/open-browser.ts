import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Terminal } from '../command-input.ts';

const OPENERS: Readonly<Record<string, readonly string[]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Lifetime of the page that redirects to a private address. */
const PAGE_MS = 60_000;
/** Runs in a process of its own, since this command ends before the browser has read the page. */
const REMOVER = `setTimeout(() => require('node:fs').rmSync(process.argv[1], { recursive: true, force: true }), ${PAGE_MS})`;

/**
 * Opens an address that contains a secret. Other users of the machine can see process arguments, so the browser gets the path
 * of a page that only this user can read; the page redirects to the address and is removed after a minute.
 */
export function openPrivately(url: string, env: Terminal['env']): boolean {
  if (!isWebAddress(url) || !hasBrowser(env)) return false;
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-'));
  const page = join(folder, 'console.html');
  try {
    writeFileSync(page, redirectTo(url), { mode: 0o600 });
    run([process.execPath, '-e', REMOVER, folder]);
  } catch {
    rmSync(folder, { recursive: true, force: true });
    return false;
  }
  open(pathToFileURL(page).href, env);
  return true;
}

function redirectTo(url: string): string {
  const address = url.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
  const head = `<meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=${address}">`;
  return `<!doctype html>${head}<title>Trunkline</title><p><a href="${address}">Open the console</a></p>\n`;
}

/** Opens the address in a browser, without a shell: a server may have chosen it. Returns false without a browser. */
export function openBrowser(url: string, env: Terminal['env']): boolean {
  if (!isWebAddress(url) || !hasBrowser(env)) return false;
  open(url, env);
  return true;
}

function isWebAddress(url: string): boolean {
  return /^https?:\/\//.test(url);
}

function hasBrowser(env: Terminal['env']): boolean {
  if (env['BROWSER']) return true;
  const display = env['DISPLAY'] ?? env['WAYLAND_DISPLAY'];
  return env['SSH_CONNECTION'] === undefined && (process.platform !== 'linux' || display !== undefined);
}

function open(url: string, env: Terminal['env']): void {
  const named = env['BROWSER'];
  run([...(named ? [named] : (OPENERS[process.platform] ?? ['xdg-open'])), url]);
}

/** Starts a process that outlives this command. */
function run([command = '', ...words]: readonly string[]): void {
  const child = spawn(command, words, { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}
