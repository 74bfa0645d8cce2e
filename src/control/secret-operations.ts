import { KEY_OF_CLUSTER, MAX_SECRET_BYTES, SECRET, SECRETS } from '../model/credentials.ts';
import { SECRET_NAME } from '../model/names.ts';
import { count, described, object, text } from '../model/schema.ts';
import { bodyOf } from './json-object.ts';
import { type ApiOperation, mapRunTimeProblems, ok, operation, problem } from './operation.ts';
import { REMOVED } from './schemas.ts';

const MAX_BODY_BYTES = 8 * MAX_SECRET_BYTES;
const EXEC = 'It takes the right servers:exec: what is set here may become part of a command.';
const STORE = {
  503: 'The store cannot be written, or it is not known whether it was written.',
  507: 'The disk is full.',
};

const PUT = object({ value: described(text, 'At most 64 KiB.') });

/** The values of `${secret:NAME}`. No operation returns one. */
export const SECRET_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listSecrets',
    method: 'GET',
    path: '/api/v1/secrets',
    runsAt: 'this-node',
    summary: 'The names of the stored secrets, and when each was changed.',
    schema: SECRETS,
    errors: STORE,
    run: (_request, { secrets }) => mapRunTimeProblems(async () => ok({ secrets: await secrets.list() })),
  }),
  operation({
    id: 'putSecret',
    method: 'PUT',
    path: '/api/v1/secrets/{name}',
    runsAt: 'this-node',
    summary: 'Sets or changes a secret. Servers whose definitions refer to it use the new value when this answers.',
    body: PUT,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: SECRET,
    errors: { 400: 'The name or the value cannot be one of a secret.', 403: EXEC, ...STORE },
    run({ name, caller, body }, { secrets }) {
      if (!caller.exec) return problem(403, 'exec_required', EXEC);
      const given = bodyOf(PUT, body);
      if (typeof given === 'string') return problem(400, 'value_malformed', given);
      const { value } = given;
      if (!SECRET_NAME.test(name)) {
        return problem(400, 'name_malformed', 'the name of a secret is 1 to 128 of: letters, digits, "_", ".", "-"');
      }
      const bytes = value.isWellFormed() && !value.includes('\0') ? Buffer.byteLength(value) : 0;
      if (bytes === 0 || bytes > MAX_SECRET_BYTES) {
        return problem(400, 'value_malformed', 'value has to be a text of 1 byte to 64 KiB without NUL');
      }
      return mapRunTimeProblems(async () => ok(await secrets.put(name, value)));
    },
  }),
  operation({
    id: 'deleteSecret',
    method: 'DELETE',
    path: '/api/v1/secrets/{name}',
    runsAt: 'this-node',
    summary:
      'Removes a secret. Servers whose definitions refer to it are misconfigured then, and do not use it any more.',
    schema: REMOVED,
    errors: { 403: EXEC, 404: 'There is no such secret.', ...STORE },
    run({ name, caller }, { secrets }) {
      if (!caller.exec) return problem(403, 'exec_required', EXEC);
      return mapRunTimeProblems(async () => {
        if (await secrets.delete(name)) return ok({ removed: true });
        return problem(404, 'secret_unknown', `there is no secret ${JSON.stringify(name.slice(0, 128))}`);
      });
    },
  }),
  operation({
    id: 'rotateSecretKey',
    method: 'POST',
    path: '/api/v1/secret-key',
    runsAt: 'this-node',
    summary: 'Makes a new key, seals all credentials and secrets with it, and drops the one before.',
    schema: object({ sealed: described(count, 'How many records the new key has sealed.') }),
    errors: { 403: EXEC, 409: 'The key comes from the secret of the cluster.', ...STORE },
    run({ caller }, { secrets }) {
      if (!caller.exec) return problem(403, 'exec_required', EXEC);
      return mapRunTimeProblems(async () => {
        const sealed = await secrets.rotateKey();
        return sealed === null ? problem(409, 'key_of_cluster', KEY_OF_CLUSTER) : ok({ sealed });
      });
    },
  }),
];
