import type { Operation } from './operation.ts';
import { OPERATIONS } from './operations.ts';
import { ERROR } from './schemas.ts';

/** The OpenAPI document of the control API; `schema/openapi.json` is its text. */
export function openApi(version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of OPERATIONS) {
    paths[operation.path] = { ...paths[operation.path], [operation.method.toLowerCase()]: describe(operation) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Trunkline control API',
      version,
      description: 'On the control listener. The token is in `control.token` in the data folder.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    security: [{ token: [] }],
    paths,
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };
}

function describe(operation: Operation): object {
  const parameters = [
    ...(operation.path.includes('{name}')
      ? [{ name: 'name', in: 'path', required: true, schema: { type: 'string' } }]
      : []),
    ...Object.entries(operation.query ?? {}).map(([name, description]) => ({
      name,
      in: 'query',
      description,
      schema: { type: 'string' },
    })),
  ];
  const errors = { 401: 'The token is missing or wrong.', ...operation.errors };
  return {
    operationId: operation.id,
    summary: operation.summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(operation.takesBody === true ? { requestBody: { required: true, content: json({ type: 'object' }) } } : {}),
    responses: {
      [operation.status ?? 200]:
        operation.streams === true
          ? { description: 'An event stream.', content: { 'text/event-stream': { schema: operation.schema } } }
          : { description: 'Done.', content: json(operation.schema) },
      ...Object.fromEntries(
        Object.entries(errors).map(([status, description]) => [status, { description, content: json(ERROR) }]),
      ),
    },
  };
}

function json(schema: object): object {
  return { 'application/json': { schema } };
}
