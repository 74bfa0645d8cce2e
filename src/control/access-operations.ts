import { ACCESS, EXPLANATION } from '../model/access.ts';
import { type ApiOperation, noSuchServer, ok, operation, problem } from './operation.ts';

/** The rights of callers under the call policies. */
export const ACCESS_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'getAccess',
    method: 'GET',
    path: '/api/v1/access',
    summary: 'What each caller may use: every tool of every server, as the policies of calls decide it now.',
    schema: ACCESS,
    run: (_request, { access }) => ok(access.table()),
  }),
  operation({
    id: 'explainCall',
    method: 'GET',
    path: '/api/v1/servers/{name}/access',
    summary: 'What would become of a call of one caller, policy by policy. Nothing is sent and nothing is counted.',
    query: {
      tool: { description: "The tool's own name." },
      principal: { description: '`agent:<name>`, `anonymous` or `operator`; `anonymous` by default.' },
    },
    schema: EXPLANATION,
    errors: { 400: 'The tool is not named.', 404: 'There is no server of that name, or no such caller.' },
    run({ name, query }, plane) {
      if (plane.upstreams.status(name) === null) return noSuchServer(name, plane);
      const tool = query.get('tool') ?? '';
      if (tool === '') return problem(400, 'tool_missing', 'name the tool: ?tool=…');
      const principal = query.get('principal') ?? 'anonymous';
      const found = plane.access.explain(principal, name, tool);
      if (found !== null) return ok(found);
      const shown = JSON.stringify(principal.slice(0, 80));
      return problem(404, 'principal_unknown', `unknown caller ${shown}; agents are agent:<name>`);
    },
  }),
];
