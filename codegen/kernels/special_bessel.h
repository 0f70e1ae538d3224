// SPDX-License-Identifier: Apache-2.0
// Bessel functions and Airy's, for doubles: the rational functions and Chebyshev sums of Cephes
// (j0.c, j1.c, i0.c, i1.c, k0.c, k1.c, airy.c, S. L. Moshier), as ATen has them.
#ifndef STRAIGHTLINE_KERNELS_SPECIAL_BESSEL_H
#define STRAIGHTLINE_KERNELS_SPECIAL_BESSEL_H

#include "straightline/kernels/special_error.h"

namespace sl::special {

inline constexpr double kTwoOverPi = 0.6366197723675814;
inline constexpr double kRootOfTwoOverPi = 0.7978845608028654;

/// exp(-|x|) I0(x).
SL_NOINLINE double i0e(double x) {
  x = elementary::absolute(x);
  if (x <= 8.0) {
    constexpr double c[] = {
        -4.4153416464793395e-18, 3.3307945188222384e-17,  -2.431279846547955e-16,
        1.715391285555133e-15,   -1.1685332877993451e-14, 7.676185498604936e-14,
        -4.856446783111929e-13,  2.95505266312964e-12,    -1.726826291441556e-11,
        9.675809035373237e-11,   -5.189795601635263e-10,  2.6598237246823866e-09,
        -1.300025009986248e-08,  6.046995022541919e-08,   -2.670793853940612e-07,
        1.1173875391201037e-06,  -4.4167383584587505e-06, 1.6448448070728896e-05,
        -5.754195010082104e-05,  0.00018850288509584165,  -0.0005763755745385824,
        0.0016394756169413357,   -0.004324309995050576,   0.010546460394594998,
        -0.02373741480589947,    0.04930528423967071,     -0.09490109704804764,
        0.17162090152220877,     -0.3046826723431984,     0.6767952744094761};
    return chebyshevSum(x / 2.0 - 2.0, c);
  }
  constexpr double c[] = {-7.233180487874754e-18,  -4.830504485944182e-18,  4.46562142029676e-17,
                          3.461222867697461e-17,   -2.8276239805165836e-16, -3.425485619677219e-16,
                          1.7725601330565263e-15,  3.8116806693526224e-15,  -9.554846698828307e-15,
                          -4.150569347287222e-14,  1.54008621752141e-14,    3.8527783827421426e-13,
                          7.180124451383666e-13,   -1.7941785315068062e-12, -1.3215811840447713e-11,
                          -3.1499165279632416e-11, 1.1889147107846439e-11,  4.94060238822497e-10,
                          3.3962320257083865e-09,  2.266668990498178e-08,   2.0489185894690638e-07,
                          2.8913705208347567e-06,  6.889758346916825e-05,   0.0033691164782556943,
                          0.8044904110141088};
  return chebyshevSum(32.0 / x - 2.0, c) / elementary::squareRoot(x);
}

/// exp(-|x|) I1(x).
SL_NOINLINE double i1e(double x) {
  const double a = elementary::absolute(x);
  double size;
  if (a <= 8.0) {
    constexpr double c[] = {
        2.7779141127610464e-18,  -2.111421214358166e-17,  1.5536319577362005e-16,
        -1.1055969477353862e-15, 7.600684294735408e-15,   -5.042185504727912e-14,
        3.223793365945575e-13,   -1.9839743977649436e-12, 1.1736186298890901e-11,
        -6.663489723502027e-11,  3.625590281552117e-10,   -1.8872497517228294e-09,
        9.381537386495773e-09,   -4.445059128796328e-08,  2.0032947535521353e-07,
        -8.568720264695455e-07,  3.4702513081376785e-06,  -1.3273163656039436e-05,
        4.781565107550054e-05,   -0.00016176081582589674, 0.0005122859561685758,
        -0.0015135724506312532,  0.004156422944312888,    -0.010564084894626197,
        0.024726449030626516,    -0.05294598120809499,    0.1026436586898471,
        -0.17641651835783406,    0.25258718644363365};
    size = chebyshevSum(a / 2.0 - 2.0, c) * a;
  } else {
    constexpr double c[] = {
        7.517296310842105e-18,   4.414348323071708e-18,   -4.6503053684893586e-17,
        -3.209525921993424e-17,  2.96262899764595e-16,    3.3082023109209285e-16,
        -1.8803547755107825e-15, -3.8144030724370075e-15, 1.0420276984128802e-14,
        4.272440016711951e-14,   -2.1015418427726643e-14, -4.0835511110921974e-13,
        -7.198551776245908e-13,  2.0356285441470896e-12,  1.4125807436613782e-11,
        3.2526035830154884e-11,  -1.8974958123505413e-11, -5.589743462196584e-10,
        -3.835380385964237e-09,  -2.6314688468895196e-08, -2.512236237870209e-07,
        -3.882564808877691e-06,  -0.00011058893876262371, -0.009761097491361469,
        0.7785762350182801};
    size = chebyshevSum(32.0 / a - 2.0, c) / elementary::squareRoot(a);
  }
  return x < 0.0 ? -size : size;
}

// Of an infinity exp() * 0 is NaN, as ATen's.
SL_INLINE double i0(double x) { return exp(elementary::absolute(x)) * i0e(x); }
SL_INLINE double i1(double x) { return exp(elementary::absolute(x)) * i1e(x); }

/// exp(x) K0(x).
SL_NOINLINE double scaled_modified_bessel_k0(double x) {
  if (!(x > 0.0)) {
    return x == 0.0 ? kInfinity : kNan;
  }
  if (x <= 2.0) {
    constexpr double c[] = {1.374465435613523e-16, 4.25981614279661e-14,   1.0349695257633842e-11,
                            1.904516377220209e-09, 2.5347910790261494e-07, 2.286212103119452e-05,
                            0.001264615411446926,  0.0359799365153615,     0.3442898999246285,
                            -0.5353273932339028};
    return (chebyshevSum(x * x - 2.0, c) - log(0.5 * x) * i0(x)) * exp(x);
  }
  constexpr double c[] = {5.300433772686263e-18,   -1.6475804301524212e-17, 5.2103915050390274e-17,
                          -1.678231096805412e-16,  5.512055978524319e-16,   -1.848593377343779e-15,
                          6.3400764774050706e-15,  -2.2275133269916698e-14, 8.032890775363575e-14,
                          -2.9800969231727303e-13, 1.140340588208475e-12,   -4.514597883373944e-12,
                          1.8559491149547177e-11,  -7.957489244477107e-11,  3.577397281400301e-10,
                          -1.69753450938906e-09,   8.574034017414225e-09,   -4.660489897687948e-08,
                          2.766813639445015e-07,   -1.8317555227191195e-06, 1.39498137188765e-05,
                          -0.00012849549581627802, 0.0015698838857300533,   -0.0314481013119645,
                          2.4403030820659555};
  return chebyshevSum(8.0 / x - 2.0, c) / elementary::squareRoot(x);
}

/// exp(x) K1(x).
SL_NOINLINE double scaled_modified_bessel_k1(double x) {
  if (!(x > 0.0)) {
    return x == 0.0 ? kInfinity : kNan;
  }
  if (x <= 2.0) {
    constexpr double c[] = {
        -7.023863479386288e-18,  -2.427449850519366e-15, -6.666901694199329e-13,
        -1.4114883926335278e-10, -2.213387630734726e-08, -2.4334061415659684e-06,
        -0.0001730288957513052,  -0.006975723859639864,  -0.12261118082265715,
        -0.3531559607765449,     1.5253002273389478};
    return (log(0.5 * x) * i1(x) + chebyshevSum(x * x - 2.0, c) / x) * exp(x);
  }
  constexpr double c[] = {-5.756744483665017e-18,  1.7940508731475592e-17,  -5.689462558442859e-17,
                          1.838093544366639e-16,   -6.057047248373319e-16,  2.038703165624334e-15,
                          -7.019837090418314e-15,  2.4771544244813043e-14,  -8.976705182324994e-14,
                          3.3484196660784293e-13,  -1.2891739609510289e-12, 5.13963967348173e-12,
                          -2.1299678384275683e-11, 9.218315187605006e-11,   -4.1903547593418965e-10,
                          2.015049755197033e-09,   -1.0345762465678097e-08, 5.7410841254500495e-08,
                          -3.5019606030878126e-07, 2.406484947837217e-06,   -1.936197974166083e-05,
                          0.00019521551847135162,  -0.002857816859622779,   0.10392373657681724,
                          2.7206261904844427};
  return chebyshevSum(8.0 / x - 2.0, c) / elementary::squareRoot(x);
}

SL_INLINE double modified_bessel_k0(double x) { return exp(-x) * scaled_modified_bessel_k0(x); }
SL_INLINE double modified_bessel_k1(double x) { return exp(-x) * scaled_modified_bessel_k1(x); }

/// P and Q of the asymptotic form of order 0: sqrt(2 / (pi x)) (P cos(t) - Q sin(t)).
struct Phase {
  double p;
  double q;
};
SL_NOINLINE Phase phaseOfOrder0(double x) {
  const double z = 25.0 / (x * x);
  constexpr double pp[] = {1.0,
                           5.303240382353949,
                           8.74716500199817,
                           5.447250030587687,
                           1.239533716464143,
                           0.08283523921074408,
                           0.0007969367292973471};
  constexpr double pq[] = {1.0,
                           5.306052882353947,
                           8.761908832370695,
                           5.470977403304171,
                           1.2535274390105895,
                           0.08562884743544745,
                           0.0009244088105588637};
  constexpr double qp[] = {-6.050143506007285,  -51.41053267665993,   -147.07750515495118,
                           -177.68116798048806, -93.20601521237683,   -19.553954425773597,
                           -1.2825271867050931, -0.011366383889846916};
  constexpr double qq[] = {242.0057402402914, 2062.0933166032783, 5930.727011873169,
                           7240.467741956525, 3882.4018360540163, 856.4300259769806,
                           64.3178256118178};
  return {elementary::horner(z, pp) / elementary::horner(z, pq),
          5.0 / x * (elementary::horner(z, qp) / elementary::horner(z, qq))};
}
SL_NOINLINE Phase phaseOfOrder1(double x) {
  const double z = 5.0 / x * (5.0 / x);
  constexpr double pp[] = {1.0,
                           5.214515986823615,
                           8.424045901417724,
                           5.112079511468076,
                           1.1271960812968493,
                           0.07313970569409176,
                           0.0007621256162081731};
  constexpr double pq[] = {1.0,
                           5.209828486823619,
                           8.399855543276042,
                           5.073863861286015,
                           1.105142326340617,
                           0.06884559087544954,
                           0.0005713231280725487};
  constexpr double qp[] = {25.207020585802372, 211.68875710057213, 597.4896124006136,
                           710.8563049989261,  366.7796093601508,  75.82382841325453,
                           4.982138729512334,  0.05108625947501766};
  constexpr double qq[] = {336.0936078106983, 2826.1927851763908, 7997.041604473507,
                           9562.318924047562, 4986.410583376536,  1056.4488603826283,
                           74.23732770356752};
  return {elementary::horner(z, pp) / elementary::horner(z, pq),
          5.0 / x * (elementary::horner(z, qp) / elementary::horner(z, qq))};
}

SL_NOINLINE double bessel_j0(double x) {
  x = elementary::absolute(x);
  if (x <= 5.0) {
    if (x < 0.00001) {
      return 1.0 - x * x / 4.0;
    }
    constexpr double rp[] = {9708622510473064.0, -249248344360967.72, 1956174919465.5657,
                             -4794432209.782018};
    constexpr double rq[] = {1.7108629408104315e+18, 3.1812195594320496e+16, 310518229857422.56,
                             2112775201154.892,      11185553704.535683,     48440965.83399621,
                             173785.4016763747,      499.563147152651};
    const double z = x * x;
    return (z - 5.783185962946784) * (z - 30.471262343662087) * elementary::horner(z, rp) /
           elementary::horner(z, rq);
  }
  const Phase at = phaseOfOrder0(x);
  const double t = x - 0.7853981633974483;
  return (at.p * cos(t) - at.q * sin(t)) * kRootOfTwoOverPi / elementary::squareRoot(x);
}

SL_NOINLINE double bessel_j1(double given) {
  const double x = elementary::absolute(given);
  double size;
  if (x <= 5.0) {
    constexpr double rp[] = {3682957328638529.0, -72749424522181.83, 452228297998.19403,
                             -899971225.7055594};
    constexpr double rq[] = {5.322786203326801e+18, 8.952223361846274e+16, 784369607876235.9,
                             4749141220799.914,     22151159547.97925,     83514679.14319493,
                             256987.25675774884,    620.8364781180543};
    const double z = x * x;
    size = elementary::horner(z, rp) / elementary::horner(z, rq) * x * (z - 14.681970642123893) *
           (z - 49.2184563216946);
  } else {
    const Phase at = phaseOfOrder1(x);
    const double t = x - 2.356194490192345;
    size = (at.p * cos(t) - at.q * sin(t)) * kRootOfTwoOverPi / elementary::squareRoot(x);
  }
  return given < 0.0 ? -size : size;
}

SL_NOINLINE double bessel_y0(double x) {
  if (x <= 5.0) {
    if (!(x > 0.0)) {
      return x == 0.0 ? -kInfinity : kNan;
    }
    constexpr double yp[] = {-1.8495080043698668e+16, 4.4273326857256984e+16, -3466283033847297.0,
                             87590639439536.7,        -982136065717.9115,     5435264770.518765,
                             -14663929.59039716,      15592.436785523574};
    constexpr double yq[] = {2.5059625617265306e+17, 3171577528429750.5, 20297961275010.555,
                             86400248710.3935,       268919633.39381415, 626107.330137135,
                             1041.2835366425984};
    const double z = x * x;
    return elementary::horner(z, yp) / elementary::horner(z, yq) +
           kTwoOverPi * log(x) * bessel_j0(x);
  }
  const Phase at = phaseOfOrder0(x);
  const double t = x - 0.7853981633974483;
  return (at.p * sin(t) + at.q * cos(t)) * kRootOfTwoOverPi / elementary::squareRoot(x);
}

SL_NOINLINE double bessel_y1(double x) {
  if (x <= 5.0) {
    if (!(x > 0.0)) {
      return x == 0.0 ? -kInfinity : kNan;
    }
    constexpr double yp[] = {-7.788771962659501e+17, 2.024394757135949e+17, -8127702555013251.0,
                             114509511541823.73,     -647355876379.1603,    1263204747.9017804};
    constexpr double yq[] = {3.9727060811656064e+18, 6.871410873553005e+16, 620557727146953.8,
                             3882312774962.3857,     18760131610.870617,    73481194.44597217,
                             235564.09294306856,     594.3015923461282};
    const double z = x * x;
    return x * (elementary::horner(z, yp) / elementary::horner(z, yq)) +
           kTwoOverPi * (bessel_j1(x) * log(x) - 1.0 / x);
  }
  const Phase at = phaseOfOrder1(x);
  const double t = x - 2.356194490192345;
  return (at.p * sin(t) + at.q * cos(t)) * kRootOfTwoOverPi / elementary::squareRoot(x);
}

SL_NOINLINE double spherical_bessel_j0(double x) {
  if (elementary::absolute(x) == kInfinity) {
    return 0.0;
  }
  if (elementary::absolute(x) < 0.5) {
    constexpr double c[] = {1.0,          -1.0 / 6,         1.0 / 120,         -1.0 / 5040,
                            1.0 / 362880, -1.0 / 39916800., 1.0 / 6227020800.0};
    return elementary::horner(x * x, c);
  }
  return sin(x) / x;
}

/// Airy's function of x < -2.09.
SL_NOINLINE double airyOfNegative(double x) {
  constexpr double afn[] = {-1.6778769848911465e-08, -2.776491081552329e-06, -0.0001592764962392621,
                            -0.004062659235948854,   -0.04919001326095003,   -0.2797799815451191,
                            -0.6931580360369335,     -0.6264565444319123,    -0.1316963234183318};
  constexpr double afd[] = {4.5185009297058035e-07, 7.547203482874142e-05, 0.004402916416152112,
                            0.11568717379518804,    1.4752914677166642,    9.187074029072596,
                            26.736704094149957,     32.682503279522464,    13.356042070655324};
  constexpr double agn[] = {3.415517847659236e-10, 8.117892395543892e-08, 6.98793669997261e-06,
                            0.000282851600836737,  0.005858041130483885,  0.06338889196289255,
                            0.35146565610554764,   0.9391692298166502,    1.0657989759959559,
                            0.39110302961568827,   0.01973399320916857};
  constexpr double agd[] = {4.9183457006293e-09,  1.1716673321441352e-06, 0.00010125908511650914,
                            0.004126565238242226, 0.08645808263523921,    0.9542936116189619,
                            5.476860694229755,    15.564662893286462,     19.835292871831214,
                            9.30892908077442};
  const double root = elementary::squareRoot(-x);
  const double size = -2.0 * x * root / 3.0;
  const double z = 1.0 / size;
  const double zz = z * z;
  const double f = 1.0 + zz * elementary::horner(zz, afn) / elementary::horner(zz, afd);
  const double g = z * elementary::horner(zz, agn) / elementary::horner(zz, agd);
  const double t = size + 0.25 * kPi;
  return 0.5641895835477563 / elementary::squareRoot(root) * (sin(t) * f - cos(t) * g);
}

SL_NOINLINE double airy_ai(double x) {
  if (x != x || elementary::absolute(x) == kInfinity) {
    return kNan;
  }
  if (x > 103.892) {
    return 0.0;
  }
  if (x < -2.09) {
    return airyOfNegative(x);
  }
  if (x >= 2.09) {
    constexpr double an[] = {1.0,
                             14.026469116338967,
                             70.53609068404442,
                             159.75639135016442,
                             168.08922493463058,
                             76.27960536152345,
                             12.007595273964581,
                             0.346538101525629};
    constexpr double ad[] = {1.0,
                             14.095913560783403,
                             71.47784008255756,
                             164.2346928715297,
                             177.31808814540045,
                             84.51389701414746,
                             14.75625625848472,
                             0.5675945326387702};
    const double size = 2.0 * x * elementary::squareRoot(x) / 3.0;
    const double z = 1.0 / size;
    return 0.5641895835477563 * (elementary::horner(z, an) / elementary::horner(z, ad)) /
           (2.0 * elementary::squareRoot(elementary::squareRoot(x)) * exp(size));
  }
  // The two power series at 0.
  const double cube = x * x * x;
  double f = 1.0;
  double g = x;
  double m = 1.0;
  double n = x;
  for (double k = 1.0; k < 120.0; k += 3.0) {
    m *= cube / ((k + 1.0) * (k + 2.0));
    n *= cube / ((k + 2.0) * (k + 3.0));
    f += m;
    g += n;
    if (elementary::absolute(m) <= 1.1e-16 * elementary::absolute(f)) {
      break;
    }
  }
  return 0.3550280538878172 * f - 0.2588194037928068 * g;
}

}  // namespace sl::special

#endif  // STRAIGHTLINE_KERNELS_SPECIAL_BESSEL_H
