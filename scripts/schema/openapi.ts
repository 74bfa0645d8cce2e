import type { ApiOperation, Parameter } from '../../src/control/operation.ts';
import { OPERATIONS } from '../../src/control/operations.ts';
import { ERROR } from '../../src/control/schemas.ts';
import { componentOf, type Schema, text } from '../../src/model/schema.ts';

/** What the listener, or the node that forwards a request to another node, refuses before an operation runs. */
const REFUSED =
  'Refused before the operation: 400, 413 or 415 for a body that is empty, too large or not application/json; 403 for a page that is not of the session; 404 for an unknown `node`, 503 for one that does not answer; 503 for a stream beyond the limit.';

/** The OpenAPI document of the control API; `schema/openapi.json` is its text. */
export function openApi(version: string): object {
  const schemas = new Components();
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of OPERATIONS) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method.toLowerCase()]: describe(operation, schemas),
    };
  }
  const error = { 'application/json': { schema: schemas.refer(ERROR) } };
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
    components: {
      parameters: {
        node: {
          name: 'node',
          in: 'query',
          description:
            'Has this node of the cluster answer. Without it the node that is asked answers, for all nodes where the operation says so. A stream of another node begins with 200 even if that node refuses it; its only event is the error then.',
          schema: text,
        },
      },
      responses: {
        Error: { description: 'Refused.', content: error },
        Refused: { description: REFUSED, content: error },
      },
      schemas: schemas.all,
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  };
}

function describe(operation: ApiOperation, schemas: Components): object {
  const {
    id,
    unauthenticated,
    runsAt,
    path,
    query = {},
    body,
    status = 200,
    streams,
    schema,
    errors = {},
    summary,
  } = operation;
  const parameters = [
    ...(path.includes('{name}') ? [{ name: 'name', in: 'path', required: true, schema: { type: 'string' } }] : []),
    ...Object.entries(query).map(([name, parameter]) => ({
      name,
      in: 'query',
      description: parameter.description,
      schema: parameterSchema(parameter),
    })),
    ...(runsAt === 'this-node' || 'node' in query ? [] : [{ $ref: '#/components/parameters/node' }]),
  ];
  const type = streams === true ? 'text/event-stream' : 'application/json';
  const good = { description: streams === true ? 'An event stream.' : 'Done.', content: content(type, schema) };
  function content(media: string, of: Schema): object {
    return { [media]: { schema: schemas.refer(of) } };
  }
  const refusals = { 401: 'The token is missing or wrong.', ...errors };
  return {
    operationId: id,
    ...(unauthenticated === true ? { security: [] } : {}),
    summary,
    parameters,
    ...(body === undefined ? {} : { requestBody: { required: true, content: content('application/json', body) } }),
    responses: {
      [status]: good,
      ...Object.fromEntries(
        Object.entries(refusals).map(([code, description]) => [
          code,
          { $ref: '#/components/responses/Error', description },
        ]),
      ),
      default: { $ref: '#/components/responses/Refused' },
    },
  };
}

function parameterSchema({ schema = text, between }: Parameter): Schema {
  return between === undefined ? schema : { type: 'integer', minimum: between[0], maximum: between[1] };
}

/** Schemas with a name are written once and referred to. */
class Components {
  readonly all: Record<string, unknown> = {};

  refer(schema: Schema): unknown {
    const component = componentOf(schema);
    if (component === null) return this.#within(schema);
    const { name } = component;
    if (!(name in this.all)) {
      this.all[name] = null;
      this.all[name] = this.#within(component.schema);
    }
    const { description } = schema;
    const same = description === component.schema['description'];
    return { $ref: `#/components/schemas/${name}`, ...(same ? {} : { description }) };
  }

  #within(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.#member(one));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.#member(one)]));
  }

  #member(value: unknown): unknown {
    const isSchema = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isSchema ? this.refer(value as Schema) : this.#within(value);
  }
}
