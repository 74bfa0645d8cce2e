import { isRevision, REVISIONS } from '../model/message.ts';
import { MOST_APP_BYTES } from './app-frames.ts';
import { isJsonObject } from './json-object.ts';
import { type ApiOperation, ok, operation, problem } from './operation.ts';
import {
  ANSWERED,
  APP_DOCUMENT,
  APP_FRAME,
  type AppDocumentBody,
  PLAY,
  PLAY_ANSWER,
  PLAY_STEP,
} from './playground-schemas.ts';

/** Calls that people make in the place of clients. */
export const PLAYGROUND_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'play',
    method: 'POST',
    path: '/api/v1/playground',
    summary:
      'Calls a method as a client of any revision, and streams what goes over its wire; ending the stream calls it off.',
    body: PLAY,
    streams: true,
    schema: PLAY_STEP,
    errors: { 400: 'The body is not what it should be.' },
    run({ body, gone }, { playground }) {
      const wrong = isJsonObject(body) ? faultOf(JSON.parse(body.toString())) : 'the body has to be one JSON object';
      if (wrong !== null) return problem(400, 'play_malformed', wrong);
      return { steps: async (tell) => Buffer.from(await playground.run(body, gone, tell)) };
    },
  }),
  operation({
    id: 'answerPlay',
    method: 'POST',
    path: '/api/v1/playground/{name}',
    summary: 'Answers a question of a call that `play` has begun, or calls it off.',
    body: PLAY_ANSWER,
    schema: ANSWERED,
    errors: { 400: 'The body is not what it should be.', 404: 'No such call is under way.' },
    run({ name, body }, { playground }) {
      const wrong = isJsonObject(body) ? answerFault(JSON.parse(body.toString())) : 'the body has to be a JSON object';
      if (wrong !== null) return problem(400, 'answer_malformed', wrong);
      const taken = playground.answer(name, body);
      return taken === null ? problem(404, 'play_unknown', 'no such call is under way') : ok({ taken });
    },
  }),
  operation({
    id: 'openApp',
    method: 'POST',
    path: '/api/v1/apps',
    summary: 'Gives the document of an MCP App an address with an origin of its own, for a frame of the console.',
    body: APP_DOCUMENT,
    schema: APP_FRAME,
    errors: { 400: 'The body is not what it should be.' },
    run({ body }, { appFrames }) {
      const given: unknown = isJsonObject(body) ? JSON.parse(body.toString()) : null;
      const fault = appFault(given as Given | null);
      if (fault !== null) return problem(400, 'app_malformed', fault);
      const { html, csp = {} } = given as AppDocumentBody;
      return ok({ path: appFrames.add(html, csp) });
    },
  }),
];

type Given = Readonly<Record<string, unknown>>;

function faultOf({ method, params, revision, capabilities, ...names }: Given): string | null {
  if (typeof method !== 'string' || method === '') return '`method` has to be a method of the protocol';
  if (typeof revision !== 'string' || !isRevision(revision))
    return `\`revision\` has to be one of ${REVISIONS.join(', ')}`;
  for (const [name, value] of Object.entries({ params, capabilities }))
    if (value !== undefined && !isObject(value)) return `\`${name}\` has to be an object`;
  const meta = (params as Given | undefined)?.['_meta'];
  if (meta !== undefined && !isObject(meta)) return '`params._meta` has to be an object';
  for (const name of ['server', 'principal'])
    if (names[name] != null && typeof names[name] !== 'string') return `\`${name}\` has to be a text or null`;
  return null;
}

function answerFault({ question, result, error, cancel }: Given): string | null {
  if (cancel !== undefined) return typeof cancel === 'string' ? null : '`cancel` has to be a text';
  if (typeof question !== 'string') return '`question` has to be the key of a question';
  return isObject(result ?? error) ? null : 'give `result` or `error`, an object';
}

function appFault(given: Given | null): string | null {
  if (given === null || typeof given['html'] !== 'string') return 'the body has to be an object with `html`, a text';
  if (Buffer.byteLength(given['html']) > MOST_APP_BYTES) return '`html` has more than 8 MiB';
  const csp = given['csp'] ?? {};
  const isList = (value: unknown): boolean => Array.isArray(value) && value.every((one) => typeof one === 'string');
  if (isObject(csp) && Object.values(csp as Given).every(isList)) return null;
  return '`csp` has to be an object of lists of origins';
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
