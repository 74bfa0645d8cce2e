import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { RoundRobin } from '../../examples/three-nodes/round-robin.ts';
import { startConformanceServer } from '../fixtures/conformance/http.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses } from '../support/cluster-processes.ts';
import { failing, runConformance, scored } from '../support/conformance-suite.ts';

const STDIO_FIXTURE = resolve(import.meta.dirname, '../fixtures/conformance/stdio.ts');
/** Scenarios that the suite scores, by revision. */
const SCORED = { '2025-11-25': 30, '2026-07-28': 37 } as const;

for (const [era, revision] of [
  ['stateful', '2025-11-25'],
  ['stateless', '2026-07-28'],
] as const) {
  for (const wire of ['stdio', 'http'] as const) {
    test(
      `check:C9 the official conformance suite at ${revision}, its server over ${wire}, every request at the next of three nodes`,
      {
        timeout: 200_000,
      },
      () =>
        onCluster(
          () => ClusterProcesses.start(),
          async (nodes) => {
            const server = await startConformanceServer(era);
            const definition =
              wire === 'http'
                ? { type: 'http', url: server.url }
                : { command: process.execPath, args: [STDIO_FIXTURE, era] };
            const all = [];
            for (const name of ['a', 'b', 'c']) all.push(await nodes.node(name, { suite: definition }));
            for (const node of all) await callable(node, 'suite');
            const proxy = await RoundRobin.start(all.map(({ mcpUrl }) => new URL(mcpUrl).origin));
            try {
              const result = await runConformance(`${proxy.url}/servers/suite/mcp`, revision);
              console.log(
                `# ${scored(result) - failing(result).length} of ${scored(result)} at ${revision} over ${wire}`,
              );
              assert.deepEqual(failing(result), [], result.output.slice(-8_000));
              assert.equal(scored(result), SCORED[revision]);
              assert.ok(Math.min(...proxy.counts) > 10, `each node got its part: ${proxy.counts.join()}`);
            } finally {
              await proxy[Symbol.asyncDispose]();
              await server.close();
            }
          },
        ),
    );
  }
}
