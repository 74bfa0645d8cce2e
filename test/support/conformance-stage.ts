import { resolve } from 'node:path';
import { startConformanceServer } from '../fixtures/conformance/http.ts';
import { RunningGateway } from './running-gateway.ts';

const STDIO_FIXTURE = resolve(import.meta.dirname, '../fixtures/conformance/stdio.ts');

/** The conformance suite's server behind a gateway. */
export interface ConformanceStage {
  readonly gateway: RunningGateway;
  dispose(): Promise<void>;
}

/** Over HTTP and stdio, as servers `http` and `stdio`; for the aggregate `http` alone, so that every name occurs once. */
export async function startConformanceStage(
  era: 'stateful' | 'stateless' | 'both',
  wires: 'both' | 'http',
): Promise<ConformanceStage> {
  const server = await startConformanceServer(era);
  const http = { type: 'http', url: server.url };
  const stdio = { command: process.execPath, args: [STDIO_FIXTURE, era] };
  const gateway = await RunningGateway.start({ config: { mcpServers: wires === 'both' ? { http, stdio } : { http } } });
  await gateway.ready();
  const dispose = async (): Promise<void> => {
    await gateway.dispose();
    await server.close();
  };
  return { gateway, dispose };
}
