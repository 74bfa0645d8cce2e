import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, describe, test } from 'node:test';
import { parse } from 'yaml';
import { TestAuthority } from '../support/certificates.ts';
import { NatsServer } from '../support/nats-server.ts';
import { runProgram } from '../support/run-program.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { type CodeBlock, codeBlocks, userPages } from './code-blocks.ts';
import { PageShell } from './page-shell.ts';
import { PROGRAMS } from './programs.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const SERVER = 'trunkline -- npx -y @modelcontextprotocol/server-memory\n';

/** Commands that create the files a page expects, by page; run before its first block. */
const BEFORE: Readonly<Record<string, string>> = {
  'docs/clients.md': `mkdir -p ~/.cursor
    echo '{"mcpServers":{"memory":{"command":"npx","args":["-y","@modelcontextprotocol/server-memory"]}}}' > ~/.cursor/mcp.json
    echo '{}' > ~/.claude.json`,
  'docs/gateways.md': `echo '{"mcpServers":{"memory":{"command":"npx","args":["-y","@modelcontextprotocol/server-memory"]}}}' > trunkline.json`,
  'docs/registry.md': `mkdir servers; export TRUNKLINE_REGISTRY=$PWD/servers
    for version in 1.10.0 2.0.0; do
      echo '{"name":"com.example/weather","description":"Weather, not memory","version":"'$version'","remotes":[{"type":"streamable-http","url":"https://no-such-host.invalid/mcp"}]}' > servers/$version.json
    done`,
  'docs/run-time-servers.md': `${SERVER}echo "import('./node_modules/@modelcontextprotocol/server-memory/dist/index.js')" > server.js`,
  'docs/credentials.md': `mkdir -p ~/bin; printf '#!/bin/sh\\necho t0ken\\n' > ~/bin/op; chmod +x ~/bin/op; export PATH=~/bin:$PATH`,
};
/** Commands that check the results of a page, run after its last block. */
const AFTERWARDS: Readonly<Record<string, string>> = {
  'README.md': 'trunkline call everything.echo message=hi | grep -q "Echo: hi"',
  'docs/gateways.md': '! trunkline gateways | grep trunkline.json',
  'docs/clients.md': `grep -q ':4270/mcp' ~/.claude.json; grep -q ':4270/mcp' ~/.cursor/mcp.json; trunkline call memory.read_graph`,
  'docs/run-time-servers.md': 'trunkline status | grep try; trunkline tools files | grep read_graph',
};
/** Blocks that are not run here, and why, by page and the beginning of the first line. */
const SHOWN: Readonly<Record<string, string>> = {
  'README.md  Claude Code': 'a picture',
  'deploy/README.md npm pack':
    'deploy/image.test.ts packs, builds and starts it, deploy/helm.test.ts renders the chart',
  'docs/cluster.md $ trunkline nodes': 'cluster/nodes.test.ts compares what the command prints',
  'docs/watching.md tickets': 'e2e/doctor.test.ts compares each step',
  'docs/reference/public-subjects.md nats req':
    'the nats command is no Debian package; the client below sends the same request',
};

const blocks = codeBlocks();
const of = (...languages: readonly string[]) => blocks.filter(({ language }) => languages.includes(language));
const nameOf = ({ page, line }: CodeBlock) => `${page}:${line}`;
const isShown = ({ page, text }: CodeBlock) => Object.keys(SHOWN).some((start) => `${page} ${text}`.startsWith(start));

test('every code block has a language that the tests run, and every block that is only shown exists', () => {
  const known = ['sh', 'usage', 'json', 'yaml', 'toml', 'ts', 'nginx', 'nats'];
  const wrong = blocks.filter((block) => !known.includes(block.language) && !isShown(block));
  const problem = ['docs/config-errors.md'];
  assert.deepEqual(
    wrong.map(nameOf).filter((name) => !problem.includes(name.split(':')[0]!)),
    [],
  );
  assert.equal(blocks.filter(isShown).length, Object.keys(SHOWN).length);
  assert.deepEqual(
    Object.keys({ ...BEFORE, ...AFTERWARDS }).filter((page) => !userPages().includes(page)),
    [],
  );
});

describe('shell commands', () => {
  for (const page of userPages()) {
    const scripts = of('sh').filter((block) => block.page === page && !isShown(block));
    if (scripts.length === 0) continue;
    test(`${page}: its commands succeed in their order`, async () => {
      await using shell = await PageShell.open();
      const text = [BEFORE[page] ?? '', ...scripts.map((block) => block.text), AFTERWARDS[page] ?? ''].join('\n');
      const { code, out, err } = await shell.run(text, { GITHUB_TOKEN: 't0ken' }, 'a-secret-value\n');
      assert.equal(code, 0, `${out}\n${err}`);
    });
  }
});

test('the commands and options that pages list exist', async () => {
  const help = new Map<string, string>();
  const helpOf = async (words: readonly string[]): Promise<string> => {
    const key = words.join(' ');
    const known = help.get(key);
    if (known !== undefined) return known;
    const { code, out, err } = await trunkline([...words, '--help'], { cwd: ROOT });
    assert.equal(code, 0, `trunkline ${key}: ${err}`);
    help.set(key, out);
    return out;
  };
  for (const command of listedCommands()) {
    const [first = '', second = ''] = command.split(/\s+/).slice(1);
    for (const one of /^[a-z]+(\|[a-z]+)*$/.test(first) ? first.split('|') : ['']) {
      const usage = one === '' ? await helpOf([]) : await helpOf([one]);
      const isSub = one !== '' && new RegExp(`^  ${second}\\b`, 'm').test(usage.slice(usage.indexOf('Commands:')));
      const text = isSub && second !== '' ? usage + (await helpOf([one, second])) : usage;
      const own = command.split(/ -- | npx /)[0]!;
      for (const [option] of own.matchAll(/(?<=\s)--?[a-z][\w-]*/g))
        assert.ok(text.includes(option) || isGlobal(option), `${command}: ${option} is no option`);
    }
  }
});

/** Options of the gateway that every command accepts. */
function isGlobal(option: string): boolean {
  return ['--json', '--config', '--data-dir'].includes(option);
}

/** The commands in synopses and in the text of pages. */
function* listedCommands(): Iterable<string> {
  for (const { text } of of('usage'))
    for (const line of text.split('\n').filter(Boolean)) yield line.split(/ {2,}/)[0]!;
  for (const page of userPages())
    for (const [, command] of readFileSync(join(ROOT, page), 'utf8').matchAll(/`(trunkline [^`\n]+)`/g))
      if (!command!.startsWith('trunkline_')) yield command!;
}

describe('configurations', () => {
  const authority = new TestAuthority();
  const { cert, key } = authority.issue({ name: 'mcp', hosts: ['mcp.example.com'] });
  const files = {
    'mcp.pem': cert,
    'mcp.key': key,
    'control.pem': cert,
    'control.key': key,
    'nats-ca.pem': authority.cert,
    cluster: 'x'.repeat(40),
  };
  for (const block of of('json', 'yaml', 'toml').filter(({ mark }) => !/link=|prometheus/.test(mark))) {
    test(`${nameOf(block)} is a configuration without a problem`, async () => {
      await using shell = await PageShell.open();
      for (const [name, text] of Object.entries(files)) shell.write(`home/${name}`, text);
      shell.write('home/node.creds', CREDENTIALS);
      // Files that the page has elsewhere lie beside the configuration.
      const local = block.text.replaceAll(/(?<=[:\s])\/(?:etc|run)\/[\w/.-]*?([\w.-]+)(?=[\s}])/g, './$1');
      const isFragment = block.language === 'json' && !local.includes('mcpServers');
      const text = isFragment ? `{ "mcpServers": { "one": ${local} } }` : local;
      const needed = text.includes('${DB_PASSWORD}')
        ? `${text}  nats: nats://127.0.0.1:4222\n  secret: ${'x'.repeat(40)}\n`
        : text;
      const file = shell.write(`home/trunkline.${block.language}`, needed);
      const set = Object.fromEntries(
        [...text.matchAll(/\$\{([A-Z_]+)\}/g)].map(([, name]) => [name!, `value-of-${name}-0`]),
      );
      const { code, out, err } = await trunkline(['check', file], { cwd: shell.home, env: { ...shell.env, ...set } });
      assert.equal(code, 0, `${out}${err}`);
      assert.doesNotMatch(`${out}${err}`, /TL\d{4}/);
    });
  }

  test('docs/config-errors.md shows a problem as the gateway reports it', async () => {
    await using shell = await PageShell.open();
    const [shown] = of('text').filter(({ page }) => page === 'docs/config-errors.md');
    const line = /\| {7}(.*)$/m.exec(shown!.text)![1]!;
    shell.write(
      'home/.mcp.json',
      `{\n  "mcpServers": {\n    "github": { "url": "https://api.example.com/mcp",\n      ${line}\n} } }\n`,
    );
    const { out, err } = await trunkline(['check', '.mcp.json'], {
      cwd: shell.home,
      env: { ...shell.env, GITHUB_TOKEN: undefined },
    });
    assert.ok(`${out}${err}`.includes(shown!.text.trimEnd()), `${out}${err}`);
  });
});

test('docs/recipes.md shows what `link` writes for each client', async () => {
  await using shell = await PageShell.open();
  const linked = blocks.flatMap((block) => {
    const file = /^link=(\S+)$/.exec(block.mark)?.[1];
    return file === undefined ? [] : [{ block, file }];
  });
  assert.ok(linked.length >= 5);
  for (const { block, file } of linked) shell.write(`home/${file}`, block.language === 'json' ? '{}' : '');
  const { code, err } = await shell.run('trunkline link --all');
  assert.equal(code, 0, err);
  for (const { block, file } of linked)
    assert.equal(readFileSync(join(shell.home, file), 'utf8').trim(), block.text.trim(), file);
});

describe('other programs', () => {
  test('the configuration of Prometheus leads to the metrics', async () => {
    const [block] = blocks.filter(({ mark }) => mark === 'prometheus');
    const { scrape_configs: jobs } = parse(block!.text) as { scrape_configs: ScrapeConfig[] };
    await using shell = await PageShell.open();
    const [{ authorization, static_configs: targets }] = jobs as [ScrapeConfig];
    const dataDir = join(shell.home, authorization.credentials_file.replace(/\/control\.token$/, ''));
    assert.equal((await shell.run(SERVER, { TRUNKLINE_DATA_DIR: dataDir })).code, 0);
    const token = readFileSync(join(dataDir, 'control.token'), 'utf8').trim();
    const url = `http://${shell.local(targets[0]!.targets[0]!)}/metrics`;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    assert.match(await answer.text(), /^trunkline_/m);
  });

  test('nginx passes calls, streams and keys on, over TLS', async () => {
    const [block] = of('nginx');
    const page = readFileSync(join(ROOT, block!.page), 'utf8');
    assert.match(page.slice(0, page.indexOf('```nginx')), /```yaml check\n[^`]*publicUrl[^`]*```\n\n$/);
    const config = blocks[blocks.indexOf(block!) - 1]!;
    await using shell = await PageShell.open();
    const authority = new TestAuthority();
    const { cert, key } = authority.issue({ name: 'mcp', hosts: ['mcp.example.com'] });
    const ca = shell.write('ca.pem', authority.cert);
    shell.write('home/trunkline.yaml', config.text);
    const { code, err } = await shell.run('trunkline trunkline.yaml', { WRITER_KEY: 'key-of-the-writer-0' });
    assert.equal(code, 0, err);
    const tlsPort = shell.port + 1;
    const server = shell
      .local(block!.text)
      .replace('listen 443', `listen 127.0.0.1:${tlsPort}`)
      .replace('/etc/ssl/mcp.pem', shell.write('mcp.pem', cert))
      .replace('/etc/ssl/mcp.key', shell.write('mcp.key', key, 0o600));
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (of) => `${of}_temp_path ${shell.folder}/${of};`,
    );
    const file = shell.write(
      'nginx.conf',
      `daemon off; error_log stderr; pid ${shell.folder}/nginx.pid;\nevents {}\nhttp { access_log off; ${places.join(' ')}\n${server}}\n`,
    );
    const nginx = await shell.run(
      `nginx -c ${file} & trap "kill $!" EXIT
       post() { curl -s --cacert ${ca} --resolve mcp.example.com:${tlsPort}:127.0.0.1 --retry 20 --retry-connrefused --retry-delay 1 \\
         -o answer -w '%{http_code}' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "$@" \\
         -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}' \\
         https://mcp.example.com:${tlsPort}/mcp; echo; }
       post; post -H 'Authorization: Bearer key-of-the-writer-0'; cat answer`,
    );
    assert.match(nginx.out, /^401\n200\n[\s\S]*"serverInfo"/, nginx.err);
  });

  for (const block of of('nats')) {
    test(`${nameOf(block)} is a configuration of nats-server`, async () => {
      const text = block.text.replaceAll('$NAME', 'ada').replaceAll('$PASSWORD', 'secret-of-ada').trim();
      const config = text.startsWith('{') ? `authorization { users: [${text}] }` : text;
      await using _server = await NatsServer.start({ config });
    });
  }
});

describe('programs', () => {
  const folder = join(ROOT, 'build/docs-blocks');
  const programs = of('ts');
  const files = programs.map((block, i) => ({
    block,
    file: join(folder, `block-${i}.ts`),
    around: PROGRAMS[`${block.page} ${block.text.split('\n')[0]}`],
  }));
  after(() => rmSync(folder, { recursive: true, force: true }));

  test('they have the right types', async () => {
    mkdirSync(folder, { recursive: true });
    for (const { block, file, around } of files) {
      assert.ok(around !== undefined, `${nameOf(block)} is not known to this test`);
      writeFileSync(file, `${around.before ?? ''}\n${block.text}\n${around.after ?? ''}\nexport {};\n`);
    }
    const config = {
      extends: '../../tsconfig.json',
      compilerOptions: { noUnusedLocals: false, noUnusedParameters: false },
      include: ['.'],
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
    const { code, out } = await runProgram([
      process.execPath,
      join(ROOT, 'node_modules/typescript/bin/tsc'),
      '-p',
      folder,
    ]);
    assert.equal(code, 0, out);
  });

  for (const { block, file, around } of files) {
    test(`${nameOf(block)} runs`, async () => {
      await using shell = await PageShell.open();
      await using nats = await NatsServer.start();
      const servers = { memory: { command: 'npx', args: ['-y', '@modelcontextprotocol/server-memory'] } };
      shell.write('home/.mcp.json', JSON.stringify({ mcpServers: servers }));
      writeFileSync(file, readFileSync(file, 'utf8').replaceAll('nats://127.0.0.1:4222', nats.url));
      const env = { TOKEN: 't0ken', DOCS_NATS: nats.url, TRUNKLINE_CLUSTER_SECRET: 'x'.repeat(40) };
      if (around?.gateway !== undefined) {
        const started = await shell.run(
          `trunkline gateway.json`.replace(
            'gateway.json',
            shell.write('home/gateway.json', JSON.stringify({ mcpServers: servers, ...around.gateway(nats.url) })),
          ),
          env,
        );
        assert.equal(started.code, 0, started.err);
      }
      const { code, out, err } = await shell.run(`"$DOCS_NODE" --conditions=trunkline-source ${file}`, env);
      assert.equal(code, 0, `${out}\n${err}`);
      assert.match(out, around!.prints);
    });
  }
});

interface ScrapeConfig {
  readonly authorization: { readonly credentials_file: string };
  readonly static_configs: readonly { readonly targets: readonly string[] }[];
}

const CREDENTIALS = `-----BEGIN NATS USER JWT-----
eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.e30.c2ln
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4
------END USER NKEY SEED------
`;
