import { anyObject, faultIn, object, optional } from '../model/schema.ts';
import { MOST_APP_BYTES } from './app-frames.ts';
import { bodyOf } from './json-object.ts';
import { type ApiOperation, ok, operation, problem } from './operation.ts';
import { ANSWERED, APP_DOCUMENT, APP_FRAME, PLAY, PLAY_ANSWER, PLAY_STEP } from './playground-schemas.ts';

const PARAMS = object({ _meta: optional(anyObject) });

/** Calls that the operator makes in the role of a client. */
export const PLAYGROUND_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'play',
    method: 'POST',
    path: '/api/v1/playground',
    summary:
      'Calls a method as a client of any revision, and streams what goes over its wire; ending the stream cancels the call.',
    body: PLAY,
    streams: true,
    schema: PLAY_STEP,
    errors: { 400: 'The body is not what it should be.' },
    run({ body, gone }, { playground }) {
      const play = bodyOf(PLAY, body);
      const wrong = typeof play === 'string' ? play : faultIn(PARAMS, play.params ?? {}, 'params');
      if (wrong !== null) return problem(400, 'play_malformed', wrong);
      return { steps: async (sendStep) => Buffer.from(await playground.run(body, gone, sendStep)) };
    },
  }),
  operation({
    id: 'answerPlay',
    method: 'POST',
    path: '/api/v1/playground/{name}',
    summary: 'Answers a question of a call that `play` has begun, or cancels the call.',
    body: PLAY_ANSWER,
    schema: ANSWERED,
    errors: { 400: 'The body is not what it should be.', 404: 'No such call is under way.' },
    run({ name, body }, { playground }) {
      const given = bodyOf(PLAY_ANSWER, body);
      if (typeof given === 'string') return problem(400, 'answer_malformed', given);
      const { question, result, error, cancel } = given;
      if (cancel === undefined && (question === undefined || (result ?? error) === undefined)) {
        return problem(400, 'answer_malformed', 'give question with result or error, or give cancel');
      }
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
      const given = bodyOf(APP_DOCUMENT, body);
      if (typeof given === 'string') return problem(400, 'app_malformed', given);
      const { html, csp = {} } = given;
      if (Buffer.byteLength(html) > MOST_APP_BYTES) return problem(400, 'app_malformed', 'html has more than 8 MiB');
      return ok({ path: appFrames.add(html, csp) });
    },
  }),
];
