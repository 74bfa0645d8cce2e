import { CONFIGURATION, PLAN, RELOADED } from '../model/configuration.ts';
import { type ApiOperation, NODE_PARAMETER, ok, operation } from './operation.ts';

/** The configuration of the answering node: each node has its own files. */
export const CONFIGURATION_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'getConfiguration',
    method: 'GET',
    path: '/api/v1/configuration',
    summary: 'Where the configuration comes from, what is wrong with it, and how it has changed since the start.',
    query: NODE_PARAMETER,
    schema: CONFIGURATION,
    run: (_request, { configuration }) => ok(configuration.view()),
  }),
  operation({
    id: 'planConfiguration',
    method: 'GET',
    path: '/api/v1/configuration/plan',
    summary: 'Reads the files and returns what they would change. Changes nothing.',
    query: NODE_PARAMETER,
    schema: PLAN,
    run: async (_request, { configuration }) => ok(await configuration.plan()),
  }),
  operation({
    id: 'reloadConfiguration',
    method: 'POST',
    path: '/api/v1/configuration/reload',
    summary: 'Reads the files now and applies what is valid, as SIGHUP does.',
    query: NODE_PARAMETER,
    schema: RELOADED,
    run: async (_request, { configuration }) => ok(await configuration.reload()),
  }),
];
