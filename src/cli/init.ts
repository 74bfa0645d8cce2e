import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { findConfig } from '../config/files/find-config.ts';
import { importOffer } from './clients/import.ts';
import { type CommandInput, print } from './command-input.ts';
import { EXIT, type ExitCode, usage } from './exit-code.ts';

const SCHEMA = 'https://unpkg.com/trunkline/schema/config.schema.json';
const USUAL = 'trunkline.json';

const EXAMPLE = {
  files: { command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem', '.'] },
};

/**
 * `trunkline init [file]`: writes a first configuration file; on a terminal it offers to include the servers of the clients of
 * this machine. Never overwrites a file.
 */
export async function init(input: CommandInput): Promise<ExitCode> {
  const { terminal, file = USUAL } = input;
  const path = resolve(terminal.cwd, file);
  if (!/\.jsonc?$/.test(path)) throw usage(`init writes JSON: name a file as ${USUAL} or .mcp.json, and not ${file}`);
  if (existsSync(path))
    throw usage(`${file} is there already, and stays as it is; look at it with: trunkline check ${file}`);
  const near = findConfig(terminal.cwd);
  if (input.file === undefined && near !== null && dirname(near) === terminal.cwd)
    throw usage(
      `${basename(near)} is here already; start it with: trunkline   or name another file: trunkline init <file>`,
    );
  const importing = { ...input, file: undefined, files: [], yes: false };
  const offer = terminal.ask === null ? null : await importOffer(importing, terminal.ask);
  const servers = offer?.servers ?? null;
  try {
    writeFileSync(path, textOf(servers, basename(path)), { flag: 'wx' });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const forbidden = code === 'EACCES' || code === 'EPERM' || code === 'EROFS';
    const why = forbidden ? 'this user may not write there' : code === 'ENOENT' ? 'there is no such folder' : message;
    throw usage(`${path} cannot be written: ${why}; go to a folder of yours`);
  }
  await offer?.storeSecrets(path).catch((error: unknown) => {
    // The file would refer to secrets that were not stored.
    rmSync(path);
    throw error;
  });
  const count = servers === null ? 1 : Object.keys(servers).length;
  print(input, { file: path, servers: Object.keys(servers ?? EXAMPLE) }, () => {
    const what = servers === null ? 'one example; put your servers there' : `${count} servers of your clients`;
    const checked = basename(path) === USUAL || basename(path) === '.mcp.json' ? '' : ` ${file}`;
    return `wrote ${file} with ${what}\n  next:  trunkline doctor${checked}   tries each server\n         trunkline${checked}          starts the gateway\n`;
  });
  return EXIT.ok;
}

/** Other programs read `.mcp.json`, so it gets no comments and no keys of Trunkline. */
function textOf(servers: object | null, name: string): string {
  const mcpServers = servers ?? EXAMPLE;
  if (!name.startsWith('trunkline.')) return `${JSON.stringify({ mcpServers }, null, 2)}\n`;
  const body = JSON.stringify({ $schema: SCHEMA, mcpServers }, null, 2);
  return servers === null ? commented(body) : `${body}\n`;
}

function commented(body: string): string {
  const lines = body.split('\n');
  lines.splice(
    lines.indexOf('  "mcpServers": {') + 1,
    0,
    '    // A server behind a URL; ${SEARCH_TOKEN} is a variable of your environment:',
    '    // "search": { "url": "https://example.com/mcp", "headers": { "Authorization": "Bearer ${SEARCH_TOKEN}" } },',
  );
  return `// All keys: https://unpkg.com/trunkline/docs/config.md\n${lines.join('\n')}\n`;
}
