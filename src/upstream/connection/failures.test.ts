import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { printable } from '../../model/printable.ts';
import { diagnosticLine } from './failures.ts';

/** The output of the programs in the versions named, with the original host names and paths. */
const RECORDED: readonly (readonly [program: string, stderr: string, line: string])[] = [
  [
    'python 3.11, an exception',
    `Traceback (most recent call last):
  File "/srv/p1.py", line 4, in <module>
    main()
  File "/srv/p1.py", line 3, in main
    return os.environ['DATABASE_URL']
           ~~~~~~~~~~^^^^^^^^^^^^^^^^
  File "<frozen os>", line 679, in __getitem__
KeyError: 'DATABASE_URL'
`,
    "KeyError: 'DATABASE_URL'",
  ],
  [
    'python 3.11, a group of exceptions',
    `  + Exception Group Traceback (most recent call last):
  |   File "/srv/p2.py", line 6, in <module>
  |     raise ExceptionGroup('unhandled errors in a TaskGroup', [e])
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/p2.py", line 2, in f
    |     raise ValueError('DATABASE_URL is required')
    | ValueError: DATABASE_URL is required
    +------------------------------------
`,
    'ValueError: DATABASE_URL is required',
  ],
  [
    'python 3.11, argparse',
    'usage: srv [-h] --db DB\nsrv: error: the following arguments are required: --db\n',
    'srv: error: the following arguments are required: --db',
  ],
  [
    'go 1.26, a panic',
    `panic: DATABASE_URL is required

goroutine 1 [running]:
main.main()
	/srv/g.go:3 +0x3e
exit status 2
`,
    'panic: DATABASE_URL is required',
  ],
  [
    'go 1.26, log.Fatal',
    'starting\n2026/11/25 01:59:11 DATABASE_URL is required\nexit status 1\n',
    '2026/11/25 01:59:11 DATABASE_URL is required',
  ],
  [
    'npx 10, a package that is not there',
    `npm error code E404
npm error 404 Not Found - GET https://registry.example.com/@no%2fserver
npm error 404
npm error 404  The requested resource '@no/server@*' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /root/.npm/_logs/2026-11-25T01_59_11_376Z-debug-0.log
`,
    '404 Not Found - GET https://registry.example.com/@no%2fserver',
  ],
  [
    'npx 11, no cache',
    `npm error code EACCES
npm error syscall mkdir
npm error path /nonexistent/.npm/_cacache
npm error errno EACCES
npm error
npm error Your cache folder contains root-owned files, due to a bug in
`,
    'Your cache folder contains root-owned files, due to a bug in',
  ],
  [
    'npx 10, no registry',
    `npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:9/left-pad failed, reason: connect ECONNREFUSED 127.0.0.1:9
npm error     at ClientRequest.emit (node:events:524:28)
npm error   type: 'system'
npm error }
npm error
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.  See: 'npm help config'
npm error A complete log of this run can be found in: /root/.npm/_logs/2026-11-25T01_59_11_903Z-debug-0.log
`,
    'FetchError: request to http://127.0.0.1:9/left-pad failed, reason: connect ECONNREFUSED 127.0.0.1:9',
  ],
  [
    'npx 10, a package without a program',
    `npm error could not determine executable to run
npm error A complete log of this run can be found in: /root/.npm/_logs/2026-11-25T01_59_12_305Z-debug-0.log
`,
    'could not determine executable to run',
  ],
  [
    'uvx 0.13, a package that is not there',
    `error: No solution found when resolving tool dependencies
  cause: Because no-server was not found in the package registry and you require no-server, we can conclude that your requirements are unsatisfiable.
`,
    'error: No solution found when resolving tool dependencies: Because no-server was not found in the package registry and you require no-server, we can conclude that your requirements are unsatisfiable.',
  ],
  [
    'uvx 0.5, the same',
    `  × No solution found when resolving tool dependencies:
  ╰─▶ Because no-server was not found in the package registry and
      you require no-server, we can conclude that your requirements
      are unsatisfiable.
`,
    'No solution found when resolving tool dependencies: Because no-server was not found in the package registry and you require no-server, we can conclude that your requirements are unsatisfiable.',
  ],
  [
    'uvx 0.13, no registry',
    `error: Request failed after 3 retries in 5.9s
  cause: Failed to fetch: http://127.0.0.1:9/simple/mcp-server-time/
  cause: error sending request for url (http://127.0.0.1:9/simple/mcp-server-time/)
  cause: client error (Connect)
`,
    'error: Request failed after 3 retries in 5.9s: Failed to fetch: http://127.0.0.1:9/simple/mcp-server-time/',
  ],
  [
    'docker, no daemon',
    `docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?

Run 'docker run --help' for more information
`,
    'docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?',
  ],
  [
    'uvx 0.5, no registry',
    `error: Failed to fetch: \`http://127.0.0.1:9/simple/mcp-server-time/\`
  Caused by: Request failed after 3 retries
  Caused by: error sending request for url (http://127.0.0.1:9/simple/mcp-server-time/)
`,
    'error: Failed to fetch: `http://127.0.0.1:9/simple/mcp-server-time/`: Request failed after 3 retries',
  ],
  ['a program of few words', 'starting\nno DATABASE_URL\n', 'no DATABASE_URL'],
];

for (const [program, stderr, line] of RECORDED) {
  test(`S1.19 the decisive line of the output is found: ${program}`, () =>
    assert.equal(diagnosticLine(stderr, 1, null), line));
}

test('S1.19 the decisive line of the output is found, from Node itself', () => {
  const said = (...args: string[]): string | null => {
    const { stderr, status, signal } = spawnSync(process.execPath, args, { env: { ...process.env, FORCE_COLOR: '1' } });
    return diagnosticLine(printable(stderr.toString()), status, signal);
  };
  const thrown = "console.error('listening'); throw new Error('DATABASE_URL is required')";
  assert.equal(said('-e', thrown), 'Error: DATABASE_URL is required');
  const coloured = "console.error('\\u001b[31mDATABASE_URL is required\\u001b[39m'); process.exit(1)";
  assert.equal(said('-e', coloured), 'DATABASE_URL is required');
  assert.equal(said('-e', "require('nothing-of-the-kind')"), "Error: Cannot find module 'nothing-of-the-kind'");
  const caused = "throw new Error('no database', { cause: new Error('refused') })";
  assert.equal(said('-e', caused), 'Error: no database: Error: refused');
  assert.match(said('--no-such-option') ?? '', /bad option: --no-such-option/);
});

test('output of a program that was killed, or ended well, is not taken for the reason', () => {
  assert.equal(diagnosticLine('Error: retrying\n', null, 'SIGKILL'), null);
  assert.equal(diagnosticLine('listening on stdio\n', 0, null), null);
  assert.equal(diagnosticLine('listening on stdio\n', null, 'SIGSEGV'), null);
  assert.equal(diagnosticLine('', 1, null), null);
  assert.equal(diagnosticLine(`Error: ${'x'.repeat(400)}`, 1, null)?.length, 301);
});
